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


# Which lock is taken: SigDeferAcceptLock for this MPM, then the one for all,
# then a Mutex line that names mpm-accept, then the best that works; what cannot
# be had is refused.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $mpm   = mpm();
my $other = $mpm eq 'prefork' ? 'worker' : 'prefork';
my $takes = $mpm ne 'event';
my $auto  = 'futex (auto: the best that works here)';
my $own   = q(the MPM's own);

my @chosen = (
    [ '' => $auto ],
    [ 'SigDeferAcceptLock auto'           => $auto ],
    [ 'SigDeferAcceptLock default'        => "$own (as configured)" ],
    [ 'SigDeferAcceptLock pthread'        => 'pthread (as configured)' ],
    [ "SigDeferAcceptLock pthread $other" => $auto ],
    [ "SigDeferAcceptLock FCNTL\nSigDeferAcceptLock default $mpm"
            => "$own (as configured)" ],
    [ "DefaultRuntimeDir /tmp\n<IfModule mod_sigdefer.c>\n"
            . "SigDeferAcceptLock fcntl\n</IfModule>"
            => 'fcntl (as configured)' ],
    [ 'Mutex posixsem'                    => $auto ],
    [ 'Mutex posixsem default'            => $auto ],
    [ 'Mutex posixsem watchdog-callback'  => $auto ],
    [ 'SigDefer Off'                      => "$own (SigDefer Off)" ],

    # event registers no mutex of that name
    $takes ? (
        [ 'Mutex sem mpm-accept'     => $own ],
        [ 'Mutex default mpm-accept' => $auto ],
        [ "Mutex sem mpm-accept\nSigDeferAcceptLock futex"
                => 'futex (as configured)' ],
    ) : (),
);
my @wrong = (
    [ 'SigDeferAcceptLock'
            => qr/no mechanism is given; legal are default, auto, futex/ ],
    [ 'SigDeferAcceptLock frob'
            => qr/'frob' is not known; legal are default, auto, futex/ ],
    [ 'SigDeferAcceptLock futex prefrok'
            => qr/'prefrok' is not known; legal are prefork, worker, event/ ],
    [ 'SigDeferAcceptLock futex event'
            => qr/event takes no accept lock, .*; legal are default, auto/ ],
    [ 'SigDeferAcceptLock exclusive' => qr/'exclusive' is not available/ ],
    [ 'SigDeferAcceptLock futex:/tmp' => qr/futex takes no path; legal are / ],
    [ 'SigDeferAcceptLock auto:/tmp'  => qr/auto takes no path; legal are / ],
    [ "SigDeferAcceptLock futex worker\nSigDeferAcceptLock fcntl prefork worker"
            => qr/fcntl for worker contradicts .*futex.* on line \d+ of / ],
    [ "SigDeferAcceptLock futex\nSigDeferAcceptLock fcntl"
            => qr/fcntl for all MPMs contradicts .*futex.* on line \d+ of / ],
);
my @unusable = $takes ? (
    [ 'SigDeferAcceptLock fcntl:/no/such/folder'
            => qr{on line \d+ of .*/no/such/folder} ],
    [ 'SigDeferAcceptLock fcntl:/etc/passwd'
            => qr{on line \d+ of .*/etc/passwd} ],
    [ 'SigDeferAcceptLock fcntl:/proc' => qr{on line \d+ of .*/proc} ],
) : ();

plan tests => @chosen + 2 * @wrong + 2 * @unusable, need_sigdefer();

for my $case (@chosen) {
    my ($lines, $expected) = @$case;
    my (undef, $output) = configtest($lines, dump => 'RUN_CFG');

    $expected = $own unless $takes;
    like $output, qr/^SigDeferAcceptLock: \Q$expected\E/m,
        ($lines =~ s/\n/, /gr || 'nothing') . ": $expected";
}
for my $case (@wrong, @unusable) {
    my ($lines, $message) = @$case;
    my ($ok, $output) = configtest($lines);

    $lines =~ s/\n/, /g;
    ok !$ok, "$lines: refused";
    like $output, $message, "$lines: the message tells why";
}
