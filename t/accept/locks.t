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


# Each lock, with one, two and eight listeners: load through restarts, the
# holder killed, a stop.  No request is lost, the death of a holder is told
# once each and nobody waits for it, and nothing else counts as one.
#
# As root, the children lock as another user than the one that has made the
# lock, which some locks do not allow.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use AcceptTest;
use Apache::Test '-withtestmore';

use constant DEATHS => 2;

my @rows = (
    [ 'auto',    1 ],
    [ 'auto',    8 ],
    [ 'futex',   2 ],
    [ 'pthread', 2 ],
    [ 'pthread', 8 ],
    [ 'fcntl',   2 ],
    [ 'fcntl',   8 ],
);

plan tests => @rows * (8 + 2 * DEATHS + 1), need_accept_lock();

for my $row (@rows) {
    my ($mechanism, $listeners) = @$row;
    my $who    = "$mechanism, $listeners listener(s)";
    my $server = accept_server(
        listeners => $listeners,
        conf      => "SigDeferAcceptLock $mechanism\n",
    );

    is lock_name($server), expected($mechanism, $listeners),
        "$who: the MPM has it";
    my $load = start_load($server);
    for my $signal (qw(HUP USR1)) {
        $server->restart($signal);
        is lock_name($server), expected($mechanism, $listeners),
            "$who: and after $signal";
    }
    my ($answered, @failed) = finish_load($load);
    cmp_ok $answered, '>', 0, "$who: requests were answered";
    is "@failed", '', "$who: none was lost";
    is recoveries($server), 0, "$who: nobody has died with it";
    for my $n (1 .. DEATHS) {
        SKIP: {
            skip 'nobody holds a lock', 2 if $listeners == 1;
            kill KILL => holder($server);
            answers_on_all($server, 1, "$who: served at once after death $n");
            is recoveries($server), $n, "$who: told once";
        }
    }
    $server->stop;
    is recoveries($server), $listeners == 1 ? 0 : DEATHS,
        "$who: a stop is no death";
    is join(' ', left_files($server)), '', "$who: no file is left";
    no_errors($server, $who);
}

sub expected {
    my ($mechanism, $listeners) = @_;
    return $listeners == 1 ? 'none'
        : $mechanism eq 'auto' ? 'futex'
        :                        $mechanism;
}

sub left_files {
    my ($server) = @_;
    return glob $server->root . '/logs/accept_lock*';
}

sub no_errors {
    my ($server, $what) = @_;
    my @found = $server->log->lines(
        qr/:(?:emerg|alert|crit)\]|exit signal [^K]/);

    is "@found", '', "$what: nothing worse is logged";
    return;
}
