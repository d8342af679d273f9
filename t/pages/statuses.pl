# The statuses of programs that end with a status of their own.
use strict;
use warnings;

use POSIX ();

my $r = shift;

sub status {
    my ($name) = @_;
    $r->print("$name: ", $? == -1 ? -1 : $? >> 8, "\n");
    return;
}

$r->content_type('text/plain');
my $output = `sh -c 'exit 6'`;
status('backtick');
open my $pipe, '-|', 'sh', '-c', 'exit 7' or die "pipe: $!\n";
close $pipe;
status('pipe');
system 'sh', '-c', 'exit 9';
status('system');
my $pid = fork // die "fork: $!\n";
POSIX::_exit(4) if !$pid;
waitpid $pid, 0;
status('waitpid');
