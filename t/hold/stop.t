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


# How a stop is told apart from one in a hurry: a graceful stop that is
# followed by TERM, as systemd does it, has the hold time; a TERM that comes a
# second or more after another one means now.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(sleep);

plan tests => 6, need_sigdefer();

{
    my $server = server();
    my $client = Client->new($server->port)
        ->get('/probe-linked/slow?chunks=15');

    $client->line_like(qr/^chunk: 3/, 5);
    $server->send_signal('WINCH');
    $server->send_signal('TERM');
    like $client->rest(8), qr/\nEND\n\z/,
        'WINCH, TERM: a running response is finished';
    ok $server->wait_gone(5), 'WINCH, TERM: then the server stops';
    no_crash($server->log);
}
{
    my $server = server(conf => 'SigDeferHoldTime 60');
    my $client = Client->new($server->port)->get('/probe-linked/endless');

    $client->line_like(qr/^pid: /, 5);
    $server->send_signal('TERM');
    sleep 1.1;
    ok $server->alive, 'TERM: the server waits for what is being served';
    $server->send_signal('TERM');
    ok $server->wait_gone(15), 'TERM again: it stops now';
    ok $client->gone(1), 'TERM again: and what was served is cut';
}
