#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.


# Bad input is refused with a message that names the directive, the bad value
# and what would be legal.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @cases = (
    [ 'SigDefer Maybe'             => qr/SigDefer: 'Maybe' is not known; legal are On, Off/ ],
    [ 'SigDefer'                   => qr/SigDefer/ ],
    [ 'SigDeferHold 1'             => qr/SigDeferHold: '1' is not known; legal are On, Off/ ],
    [ 'SigDeferSignals FROB'       => legal_signal('FROB') ],
    [ 'SigDeferSignals SEGV'       => legal_signal('SEGV') ],
    [ 'SigDeferSignals BUS'        => legal_signal('BUS') ],
    [ 'SigDeferSignals FPE'        => legal_signal('FPE') ],
    [ 'SigDeferSignals ILL'        => legal_signal('ILL') ],
    [ 'SigDeferSignals TRAP'       => legal_signal('TRAP') ],
    [ 'SigDeferSignals SYS'        => legal_signal('SYS') ],
    [ 'SigDeferSignals ABRT'       => legal_signal('ABRT') ],
    [ 'SigDeferSignals KILL'       => legal_signal('KILL') ],
    [ 'SigDeferSignals USR1 STOP'  => legal_signal('STOP') ],
    [ 'SigDeferSignals +KILL'      => legal_signal('+KILL') ],
    [ 'SigDeferSignals USR1x'      => legal_signal('USR1x') ],
    [ 'SigDeferSignals USR'        => legal_signal('USR') ],
    [ 'SigDeferSignals +'          => legal_signal('+') ],
    [ 'SigDeferSignals 12'         => legal_signal('12') ],
    [ 'SigDeferSignals RTMIN+99'   => legal_signal('RTMIN+99') ],
    [ 'SigDeferSignals RTMIN+1x'   => legal_signal('RTMIN+1x') ],
    [ 'SigDeferSignals USR1 +USR2' =>
            qr/SigDeferSignals: '\+USR2': either all .* or none .* \+ or -/ ],
    [ 'SigDeferSignals'            => qr/SigDeferSignals: .*legal are ALRM/ ],
    [ 'SigDeferHoldTime -1'        => legal_time('-1') ],
    [ 'SigDeferHoldTime 0'         => legal_time('0') ],
    [ 'SigDeferHoldTime 99999999'  => legal_time('99999999') ],
    [ 'SigDeferHoldTime 99999999999999999999' =>
            legal_time('99999999999999999999') ],
    [ 'SigDeferHoldTime 5s'        => legal_time('5s') ],
    [ 'SigDeferHoldTime " 5"'      => legal_time(' 5') ],
    [ 'SigDeferHoldTime five'      => legal_time('five') ],
    [ 'SigDeferHoldTime ""'        => qr/SigDeferHoldTime takes one argument/ ],
    [ 'SigDeferHoldTime 5 6'       => qr/SigDeferHoldTime takes one argument/ ],
    [ 'SigDeferReapChildren On'    => legal_mode('On') ],
    [ 'SigDeferReapChildren Idle1' => legal_mode('Idle1') ],
    [ 'SigDeferReapChildren Idle Signal' =>
            qr/SigDeferReapChildren takes one argument/ ],
);
my @directives = (
    'SigDefer Off',
    'SigDeferSignals USR2',
    'SigDeferHold Off',
    'SigDeferHoldTime 3',
    'SigDeferReapChildren Idle',
    'SigDeferAcceptLock futex',
);

plan tests => 2 * @cases + 4 * @directives, need_sigdefer();

for my $case (@cases) {
    my ($line, $message) = @$case;
    my ($ok, $output) = configtest($line);

    ok !$ok, "$line: refused";
    like $output, $message, "$line: the message tells why";
}

for my $directive (@directives) {
    my ($name) = $directive =~ /^(\w+)/;

    for my $section ('VirtualHost *:1', 'Directory /') {
        my ($type) = $section =~ /^(\w+)/;
        my ($ok, $output) = configtest(
            "<$section>\n$directive\n</$type>");

        ok !$ok, "$name: refused in a <$type>";
        like $output, qr/$name (?:cannot occur within|not allowed)/,
            "$name: and told so";
    }
}

sub legal_signal {
    my ($value) = @_;
    return qr/SigDeferSignals: '\Q$value\E' .*legal are ALRM, .*, USR2, /;
}

sub legal_time {
    my ($value) = @_;
    return qr/SigDeferHoldTime: '\Q$value\E' .*legal are 1 to 3600/;
}

sub legal_mode {
    my ($value) = @_;
    return qr/SigDeferReapChildren: '\Q$value\E' .*legal are Off, Signal, Idle/;
}
