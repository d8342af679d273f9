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


# A child that is killed while it serves takes nothing else with it, and the
# server restarts and stops as ever.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 8, need_sigdefer();

# in a threaded MPM the other request is to have a process of its own
my $server = server(mpm() eq 'prefork'
    ? ()
    : (workers => 2, conf => "ThreadsPerChild 1\nStartServers 4\n"
            . "ServerLimit 8\nMaxRequestWorkers 4"));
my ($victim, $other) = $server->begin(('/probe-linked/slow?chunks=30') x 2);

isnt $victim->pid, $other->pid, 'two children serve';
kill KILL => $victim->pid;
ok $victim->gone(2), 'one is killed, with its connection';
ok eval { fetch('/index.html', $server->port) }, 'others are served';
$server->send_signal('HUP');
like $other->rest(10), qr/\nEND\n\z/, 'the other one serves, over a restart';
ok wait_until(5, sub { !is_running($other->pid) }), 'and then leaves';
ok eval { fetch('/index.html', $server->port) }, 'new ones serve';
ok eval { $server->stop; 1 }, 'the server stops, and nobody is left';
no_crash($server->log);
