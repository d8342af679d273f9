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

# The hold is built in: without mod_sigdefer a restart or stop cuts nothing
# before the deadline, either.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(sleep time);

my $slow    = '/probe-soft/slow?chunks=12';
my $endless = '/probe-soft/endless?secret=1';
my @signals = qw(HUP USR1 TERM WINCH);

plan tests => 4 * @signals + 6 + 13 + 3 + 4 + 3,
    need_threaded('mod_probe_soft.c');

for my $signal (@signals) {
    my $server  = held_server();
    my @clients = $server->begin(($slow) x 3);
    my @pids    = $server->child_pids;

    $server->send_signal($signal);
    is scalar(grep { $_->rest(10) =~ /\nEND\n\z/ } @clients), 3,
        "$signal: what is served is finished";
    replaced($server, $signal =~ /TERM|WINCH/ ? 'TERM' : $signal, 5,
        '/index.html', $signal, @pids);
    no_crash($server->log);
}

{
    # TERM to a child: it finishes, and another one takes its place
    my $server = held_server();
    my ($client) = $server->begin($slow);

    kill TERM => $client->pid;
    like $client->rest(10), qr/\nEND\n\z/, 'a child: it finishes';
    ok wait_until(2, sub { !is_running($client->pid) }), 'a child: and goes';
    ok eval { fetch('/index.html', $server->port) }, 'a child: others serve';

    # an idle connection is not waited for
    my $kept = Client->new($server->port);
    $kept->get_and_keep('/index.html', 5);
    wait_until(5, sub { my %now = $server->status; $now{Scoreboard} =~ /K/ });
    my @pids = $server->child_pids;
    $server->send_signal('HUP');
    ok $kept->gone(1), 'keep-alive: an idle connection ends at once';
    ok wait_until(2, sub { !grep { is_running($_) } @pids }),
        'keep-alive: and so do the children';
    no_crash($server->log);
}

{
    # The deadline, three times at the same time; the last one is a child of
    # the generation before, which had none.
    my %server = map { $_ => held_server() } qw(HUP TERM old);
    my %client = map { $_ => $server{$_}->begin($endless) } keys %server;
    my %pid    = map { $_ => $client{$_}->pid } keys %client;

    $server{old}->send_signal('USR1');
    wait_until(5, sub {
        $server{old}->log->lines(qr/resuming normal operations/) });
    $server{$_}->send_signal($_ eq 'TERM' ? 'TERM' : 'HUP') for keys %server;
    sleep 4;
    for my $which (qw(HUP TERM old)) {
        ok is_running($pid{$which}), "$which: it has its time";
    }
    for my $which (qw(HUP TERM old)) {
        ok wait_until(5, sub { !is_running($pid{$which}) }),
            "$which: and is ended then";
        ok $client{$which}->gone(1), "$which: so is the connection";
        no_crash($server{$which}->log);
    }
    like $server{HUP}->error_log, qr{T042: .*"GET /probe-soft/endless"\n},
        'the log names the request, without the query';
}

{
    # a second TERM means now
    my $server = held_server();
    my ($client) = $server->begin($endless);

    $server->send_signal('TERM');
    sleep 1.5;
    ok $server->alive, 'TERM twice: the first one waits';
    $server->send_signal('TERM');
    ok $client->gone(3), 'TERM twice: the second one does not';
    ok $server->nobody_left(3), 'TERM twice: nobody is left';
}

{
    # the parent is gone
    my $server = held_server();
    my ($client) = $server->begin($slow);
    my @pids = $server->child_pids;

    kill KILL => $server->pid;
    like $client->rest(10), qr/\nEND\n\z/, 'an orphan: it finishes';
    ok wait_until(3, sub { !grep { is_running($_) } @pids }),
        'an orphan: and goes';
    ok wait_until(3, sub { eval { $server->check_port; 1 } }),
        'an orphan: the port is free';
    ok $server->nobody_left(3), 'an orphan: nobody is left';
}

{
    # who waits in the backlog when a stop comes is served
    my $server = held_server('ThreadsPerChild 1', 'MaxRequestWorkers 1',
        'StartServers 1');
    my ($first)  = $server->begin($slow);
    my @waiting = map { Client->new($server->port)->get('/index.html') } 1 .. 3;

    $server->send_signal('TERM');
    like $first->rest(10), qr/\nEND\n\z/, 'backlog: what is served';
    is scalar(grep { $_->rest(10) =~ m{^HTTP/1.1 200} } @waiting), 3,
        'backlog: and what waits';
    ok $server->nobody_left(5), 'backlog: then it is over';
}

sub held_server {
    return server(sigdefer => 0, probe => 'soft', listeners => 1,
        workers => 8, conf => join "\n", @_);
}
