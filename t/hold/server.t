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


# A restart and a stop of the whole server let running responses finish, in
# all MPMs, and the parent stays what it is.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 6 + 4 + 3, need_sigdefer();

for my $signal (qw(HUP TERM)) {
    my $server  = server();
    my $parent  = $server->pid;
    my @clients = map {
        Client->new($server->port)->get('/probe-linked/slow?chunks=15')
    } 1 .. 4;

    $_->line_like(qr/^chunk: 3/, 5) for @clients;
    $server->send_signal($signal);
    for my $client (@clients) {
        like $client->rest(8), qr/\nEND\n\z/,
            "$signal: a running response is finished";
    }
    if ($signal eq 'TERM') {
        ok $server->wait_gone(5), 'TERM: then the server stops';
    }
    else {
        is $server->pid, $parent, 'HUP: the parent is the same';
    }
    no_crash($server->log);
}
{
    my $server = server();
    my $parent = $server->pid;
    my $before = $server->child_pids;

    $server->restart('HUP') for 1 .. 2;
    is $server->pid, $parent, 'two restarts: the parent is the same';
    ok wait_until(5, sub { $server->child_pids >= $before }),
        'it has its children';
    is scalar(grep { eval { fetch('/index.html', $server->port) } } 1 .. 20),
        20, 'which answer';
    no_crash($server->log);
}
{
    my $server = server();

    for my $round (1 .. 5) {
        for (1 .. 8) {
            $server->send_signal('USR1');
            select undef, undef, undef, 0.02;
        }
    }
    ok $server->alive, 'many graceful restarts at once: the parent lives';
    ok wait_until(5, sub { eval { fetch('/index.html', $server->port) } }),
        'and children answer';
    no_crash($server->log);
}
