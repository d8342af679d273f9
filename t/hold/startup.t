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


# A signal while the server starts: it starts all the same, or is gone, and
# leaves no process behind.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(sleep);

my @moments = (
    [ 'while the configuration is read', 'pause-in-config',   qr/in-config be/ ],
    [ 'while a child is set up',         'pause-before-init', qr/init begins/ ],
    [ 'when a child is set up',          'pause-after-init',  qr/init begins/ ],
);

plan tests => 3 * 3 * @moments, need_sigdefer();

for my $row (@moments) {
    my ($when, $option, $begins) = @$row;

    for my $signal (qw(HUP USR1 TERM)) {
        my $server = server(start => 0, workers => 2,
            conf => "ProbeOptions $option");

        $server->spawn;
        ok $server->log->wait_for($begins, 10), "$signal $when: it starts";
        $server->send_signal($signal);
        if ($signal eq 'TERM' || !serves($server)) {
            ok $server->nobody_left(10), "$signal $when: nobody is left";
        }
        else {
            ok eval { $server->stop; 1 }, "$signal $when: it serves, and stops";
        }
        no_crash($server->log);
    }
}

sub serves {
    my ($server) = @_;

    wait_until(10, sub {
        !$server->alive || eval { fetch('/index.html', $server->port) }
    });
    return $server->alive;
}
