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


# httpd -t tells what counts with -D DUMP_SIGDEFER, and warns of what is
# configured and has no effect.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';

my $mpm   = mpm();
my $locks = $mpm ne 'event';

my @idle = (
    [ "SigDefer Off\nSigDeferHoldTime 3" =>
            qr/SigDeferHoldTime has no effect: SigDefer is Off/ ],
    [ "SigDeferAcceptLock auto\nSigDefer Off" =>
            qr/SigDeferAcceptLock has no effect: SigDefer is Off/ ],
    [ "SigDeferHold Off\nSigDeferHoldTime 3" =>
            qr/SigDeferHoldTime has no effect: SigDeferHold is Off/ ],
    [ 'SigDeferSignals -TERM' =>
            qr/SigDeferSignals has no effect on TERM: SigDeferHold needs/ ],
    $locks ? [ "SigDeferAcceptLock fcntl\nDefaultRuntimeDir /tmp" =>
            qr/SigDeferAcceptLock has no effect: there is only one listener/ ]
    : (),
);
my @fine = (
    '',
    'SigDefer Off',
    'SigDeferHold Off',
    "SigDeferHold Off\nSigDeferSignals -TERM",
    'SigDeferAcceptLock auto',
    "SigDeferAcceptLock futex\nListen 127.0.0.1:2",
    'SigDeferHoldTime 3',
);

plan tests => @idle + 1 + @fine + 8, need_sigdefer();

for my $case (@idle) {
    my ($lines, $warning) = @$case;
    my ($ok, $output) = configtest(log_to_stderr($lines));

    like $output, $warning, ($lines =~ s/\n/, /gr) . ': a warning';
    ok $ok, 'but no error' if $case == $idle[0];
}
for my $lines (@fine) {
    my (undef, $output) = configtest(log_to_stderr($lines));

    unlike $output, qr/has no effect/,
        ($lines =~ s/\n/, /gr || 'nothing') . ': no warning';
}

my ($ok, $output) = configtest(
    "SigDeferHoldTime 7\nSigDeferReapChildren idle\nSigDeferSignals USR2",
    options => '-D DUMP_SIGDEFER');
my %line = $output =~ /^(SigDefer\w*): (.*)$/mg;
ok $ok, 'the dump';
is $line{SigDeferHoldTime},     7,          'a directive that is given';
is $line{SigDeferReapChildren}, 'Idle',     'another one';
is $line{SigDeferHold},         'On',       'the default of another';
is $line{SigDeferSignals}, 'HUP USR2 TERM', 'what is deferred besides';
is $line{SigDeferMPM},          $mpm,       'the MPM';
like $line{SigDeferAcceptLock}, $locks ? qr/^futex \(auto/ : qr/^exclusive \(auto/,
    'the accept lock, and why';
is $line{SigDeferBinding}, 'works here', 'and whether httpd can be bound';

sub log_to_stderr { return "ErrorLog /dev/stderr\n$_[0]" }
