# An alarm of one second during a wait of three.  The query says what is to be
# done with it: "caught" by a handler, or "late", when nobody waits any more.
use strict;
use warnings;

my $r  = shift;
my $by = $r->args // '';

$r->content_type('text/plain');
if ($by eq 'caught') {
    local $SIG{ALRM} = sub { die "alarm\n" };
    eval {
        alarm 1;
        select undef, undef, undef, 3;
        alarm 0;
    };
    $r->print('ended by: ', $@ || "nobody\n");
}
else {
    alarm 1;
}
$r->print("END\n");
