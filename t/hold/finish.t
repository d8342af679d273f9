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


# A child that is told to go while it serves finishes the response first, and
# leaves by ordinary code: its cleanups run with nothing being served.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 7, need_child_signals();

for my $signal (qw(TERM HUP)) {
    my $server = server();
    my $client = Client->new($server->port)
        ->get('/probe-linked/slow?chunks=15');
    my ($pid) = $client->line_like(qr/^pid: /, 5) =~ /(\d+)/;

    $client->line_like(qr/^chunk: 3/, 5);
    kill $signal => $pid;
    like $client->rest(5), qr/^chunk: 15\nEND\n\z/m,
        "$signal: the client gets all of it";
    ok wait_until(1, sub { !is_running($pid) }), "$signal: then it leaves";

    my @leaves = $server->log->lines(qr/child $pid leaves/);
    is scalar @leaves, 1, "$signal: its cleanups run once";
    like $leaves[0], qr/serving: 0$/, "$signal: after the response";
    is_deeply [$server->log->lines(qr/hold time/)], [],
        "$signal: the hold time was not needed";
    ok eval { fetch('/index.html', $server->port) },
        "$signal: the server goes on";
    no_crash($server->log);
}
