# One wait, which a signal would cut short: /wait.pl?by=select&seconds=4
use strict;
use warnings;

use Time::HiRes ();

my %waits = (
    sleep  => sub { my ($seconds) = @_; sleep($seconds) == $seconds },
    select => sub { select(undef, undef, undef, $_[0]) == 0 },
    popen  => sub { `sleep $_[0] && echo slept` eq "slept\n" },
);

my $r = shift;
my ($by, $seconds) = $r->args =~ /by=(\w+)&seconds=(\d+)/;

$r->content_type('text/plain');
$r->print("pid: $$\n");
$r->rflush;
my $begun   = Time::HiRes::time();
my $result  = $waits{$by}->($seconds);
my $elapsed = int 1000 * (Time::HiRes::time() - $begun);
$r->print('waited: ', $result && $elapsed >= $seconds * 1000
    ? "in full\n"
    : "cut short after $elapsed ms\n");
