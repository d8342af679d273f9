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

# How many children there are: as many as the limits say, and others for those
# that end, crash, or cannot be had.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $preload = Apache::Test::vars('src_dir') . '/build/t/unlucky.so';

plan tests => 2 + 4 + 3 + 3 + 4 + 2, need_threaded('mod_probe_soft.c');

{
    my $server = own_server('MaxConnectionsPerChild 5');
    my (%served, $failed);

    for (1 .. 40) {
        my $answer = eval { probe('soft', 'state', $server->port) };
        $answer ? $served{ $answer->{pid} }++ : $failed++;
    }
    is $failed, undef, 'MaxConnectionsPerChild: all are answered';

    # the server asked itself whether it is up, too
    is scalar(grep { $_ > 5 } values %served), 0,
        'MaxConnectionsPerChild: no child serves more';
}
{
    my $server = own_server('StartServers 4', 'MinSpareThreads 2',
        'MaxSpareThreads 4', 'MaxRequestWorkers 8');

    is +(() = $server->child_pids), 4, 'StartServers: as many';
    ok wait_until(15, sub { (() = $server->child_pids) <= 3 }),
        'MaxSpareThreads: some are ended';
    my @busy = $server->begin(('/probe-soft/slow?chunks=50') x 6);
    ok wait_until(15, sub { (() = $server->child_pids) == 4 }),
        'MinSpareThreads: others are started';
    my %status = $server->status;
    cmp_ok +(() = $status{Scoreboard} =~ /W/g), '>=', 6,
        'mod_status shows each thread that serves';
}
{
    my $server = own_server('MaxRequestWorkers 2', 'ServerLimit 1',
        'MinSpareThreads 2');
    my @busy = $server->begin(('/probe-soft/slow?chunks=25') x 2);
    my $next = Client->new($server->port)->get('/index.html');

    ok $server->log->wait_for(qr/T033: server reached MaxRequestWorkers/, 5),
        'full: the log tells';
    is scalar(grep { $_->rest(10) =~ /\nEND\n\z/ } @busy), 2,
        'full: those that are served are';
    like $next->rest(5), qr{^HTTP/1.1 200}, 'full: and then the next';
}
{
    my $server = own_server('StartServers 2');
    my ($victim) = $server->child_pids;

    eval { fetch('/probe-soft/crash', $server->port) };
    ok $server->log->wait_for(qr/exit signal/, 5), 'a crash: the log tells';
    ok eval { fetch('/index.html', $server->port) }, 'a crash: others serve';
    ok wait_until(5, sub { (() = $server->child_pids) == 2 }),
        'a crash: there is another one';
}
{
    my $server = own_server('StartServers 2', { unlucky => 'fork' });
    my ($victim) = $server->child_pids;

    kill KILL => $victim;
    ok $server->log->wait_for(qr/T031: fork/, 5), 'no fork: the log tells';
    ok eval { fetch('/index.html', $server->port) }, 'no fork: it serves';
    cmp_ok scalar($server->log->lines(qr/T031/)), '<=', 1,
        'no fork: once in ten seconds';
    ok eval { $server->stop; 1 }, 'no fork: it stops';
}
{
    my $server = own_server({ unlucky => 'thread', start => 0 });

    $server->spawn;
    ok $server->wait_gone(10), 'no threads: it gives up';
    like $server->error_log, qr/T040: a thread cannot be started.*T035:/s,
        'no threads: the log tells why';
}

# Two threads a child.
sub own_server {
    my @lines   = grep { !ref } @_;
    my %options = map { %$_ } grep { ref } @_;
    my $unlucky = delete $options{unlucky};

    return server(
        sigdefer  => 0,
        probe     => 'soft',
        listeners => 1,
        workers   => 8,
        wrapper   => $unlucky
        ? [ 'env', "UNLUCKY=$unlucky", "LD_PRELOAD=$preload" ] : [],
        conf => join("\n", 'ThreadsPerChild 2', 'MaxRequestWorkers 8',
            'ServerLimit 8', @lines),
        %options,
    );
}
