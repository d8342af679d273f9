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


# A module's own handler for TERM, however it has been set, is called once when
# a child of prefork is told to go: when nothing is being served.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @options = qw(handler-before-init handler-after-init);

plan tests => 6 * @options, need_child_signals();

for my $option (@options) {
    my $server = server(workers => 1, conf => "ProbeOptions $option");
    my $pid    = probe('linked', 'state', $server->port)->{pid};

    kill TERM => $pid;
    is calls($server, $pid), 'called: 1, serving: 0',
        "$option: a child that waits";

    $pid = probe('linked', 'state', $server->port)->{pid};
    my ($client) = $server->begin('/probe-linked/slow?chunks=5');
    kill TERM => $pid;
    like $client->rest(5), qr/\nEND\n\z/, "$option: one that serves finishes";
    is calls($server, $pid), 'called: 1, serving: 0', "$option: and calls it";
    $pid = probe('linked', 'state', $server->port)->{pid};
    $server->send_signal('USR1');
    is calls($server, $pid), 'called: 0, serving: 0',
        "$option: in a graceful restart it is not called";
    $pid = probe('linked', 'state', $server->port)->{pid};
    $server->send_signal('TERM');
    is calls($server, $pid), 'called: 1, serving: 0', "$option: in a stop it is";
    no_crash($server->log);
}

# What the child has reported when it left.
sub calls {
    my ($server, $pid) = @_;
    my $report = qr/child $pid: TERM handler (called: \d+, serving: \d+)/;

    return ($server->log->wait_for($report, 5) // '') =~ $report ? $1 : 'none';
}
