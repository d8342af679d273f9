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


# A section that waits for a lock whose owner is dead: it is never cut short,
# the hold reports it and leaves the child to the parent, whose KILL ends it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 5, need_child_signals();

my $server = server(conf => 'SigDeferHoldTime 1');
my $client = Client->new($server->port)->get('/probe-linked/stuck');
my ($pid)  = $client->line_like(qr/^pid: /, 5) =~ /(\d+)/;

kill TERM => $pid;
ok !wait_until(2, sub { !is_running($pid) }),
    'the end of the hold time does not cut a section short';
ok eval { fetch('/index.html', $server->port) }, 'others go on serving';
$server->stop;
ok !is_running($pid), 'a stop of the server ends the child';
ok $client->gone(1),  'and its connection';
like $server->log->text,
    qr/S021: hold time is over, child $pid is inside a critical section/,
    'the log tells of it';
