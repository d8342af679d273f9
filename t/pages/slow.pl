# Answers in pieces, one every 100 ms, and allocates between them.  At first it
# sets a TERM handler, which stays, as that of a careless application would.
use strict;
use warnings;

use Time::HiRes qw(sleep);

our $is_set;

my $r = shift;
my ($chunks) = ($r->args // '') =~ /chunks=(\d+)/;

$SIG{TERM} = sub { die "TERM\n" } unless $is_set++;
$r->content_type('text/plain');
for my $i (1 .. $chunks // 1) {
    my @heap = map { [$_] } 1 .. 1000;
    $r->print("chunk: $i\n");
    $r->rflush;
    sleep 0.1;
}
$r->print("END\n");
