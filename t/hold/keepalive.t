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


# A child on a keep-alive connection that waits for the next request is idle:
# it leaves at once.  One that is about to answer says that it will close.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 11, need_child_signals();

my $server = server(conf => "KeepAlive On\nKeepAliveTimeout 60");

{
    my ($client, $pid) = kept_connection();

    kill TERM => $pid;
    ok $client->gone(1), 'idle: TERM closes the connection within a second';
    ok wait_until(1, sub { !is_running($pid) }), 'idle: the child is gone';
}
{
    my ($client, $pid) = kept_connection();

    # else the child might still be about to close the first answer
    wait_until(5, sub { my %now = $server->status; $now{Scoreboard} =~ /K/ });
    $client->send("GET /probe-linked/slow?chunks=1&first_ms=600 HTTP/1.1\r\n"
            . "Host: 127.0.0.1\r\n\r\n");
    wait_until(5, sub { my %now = $server->status; $now{Scoreboard} !~ /K/ });
    kill TERM => $pid;
    my $answer = $client->rest(5);
    like $answer, qr/^Connection: close\r$/m,
        'serving: the answer says that the connection will be closed';
    like $answer, qr/\nEND\n.*\r\n0\r\n\r\n\z/s, 'serving: it is complete';
    ok wait_until(1, sub { !is_running($pid) }), 'serving: the child is gone';
}
{
    # The second is being served while the first may not have been sent.
    my ($client, $pid) = kept_connection();

    $client->send(join '', map {
        "GET $_ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    } '/probe-linked/state', '/probe-linked/slow?chunks=1&first_ms=900');
    wait_until(5, sub { my %now = $server->status; $now{Scoreboard} =~ /W.*W/ });
    kill TERM => $pid;
    my $answer = $client->rest(5);
    like $answer, qr/\nEND\n.*\r\n0\r\n\r\n\z/s, 'pipelined: it is complete';
    ok wait_until(1, sub { !is_running($pid) }),
        'pipelined: the child is gone';
}

no_crash($server->log);

# One request has been answered on it, by that child.
sub kept_connection {
    my $client = Client->new($server->port);
    my $answer = $client->get_and_keep('/probe-linked/state', 5);

    unlike $answer->{header}, qr/^Connection: close/m,
        'the connection is kept';
    return ($client, $answer->{body} =~ /^pid: (\d+)/m);
}
