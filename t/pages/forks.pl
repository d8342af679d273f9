# Forks as many processes as the query says, which end at once, and waits for
# none of them; then goes on for a while.
use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(sleep);

my $r = shift;

$r->content_type('text/plain');
$r->print("pid: $$\n");
$r->rflush;
for (1 .. $r->args) {
    my $pid = fork // die "fork: $!\n";
    POSIX::_exit(0) if !$pid;
}
$r->print("ended\n");
$r->rflush;
sleep 0.5 for 1 .. 2;
