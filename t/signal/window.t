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


# A signal that comes while a child is being set up, before the module has
# installed itself or after, is not lost.  (In worker and event TERM has no
# meaning for a child: its parent uses a pipe.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $deaf     = mpm() =~ /^(?:worker|event)$/;
my @signals  = mpm() eq 'prefork' ? qw(TERM USR1) : qw(TERM);
my @pauses   = qw(pause-before-init pause-after-init);

plan tests => (2 * @signals + 1) * @pauses, need_sigdefer();

for my $pause (@pauses) {
    my $server = server(workers => 1, conf => "ProbeOptions $pause");

    for my $signal (@signals) {
        my $log    = LogWatch->new($server->root . '/logs/error_log');
        my $begins = qr/ (\d+): $pause begins/;

        $server->send_signal('USR1');
        my ($pid) = ($log->wait_for($begins, 5) // '') =~ $begins;
        ok $pid, "$pause: there is a new child";
        kill $signal => $pid;
        if ($deaf) {
            $log->wait_for(qr/ $pid: $pause ends/, 5);
            is probe('linked', 'state', $server->port)->{pid}, $pid,
                "$pause: $signal leaves it alone";
        }
        else {
            ok wait_until(1 + 2, sub { !is_running($pid) }),
                "$pause: $signal ends it";
        }
    }
    no_crash($server->log);
}
