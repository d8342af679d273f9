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


# TERM to a child at any moment around the end of a short response: the client
# gets all of it, and the child leaves.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(sleep);

use constant ROUNDS => 150;

plan tests => 2 * 3 + 1, need_child_signals();

# httpd makes new children at a pace that doubles up to 32 a second.
my $server = server(workers => 32, listeners => 1,
    conf => "MinSpareServers 32\nKeepAlive On\nKeepAliveTimeout 60");

my %kinds = (
    'the only one'              => \&only_one,
    'one on a kept connection' => \&one_of_many,
);

for my $kind (sort keys %kinds) {
    my ($whole, $left, @bad) = (0, 0);

    for (1 .. ROUNDS) {
        wait_until(10, sub { $server->child_pids > 4 });
        my ($pid, $is_whole, $answer) = $kinds{$kind}->();

        $whole += $is_whole;
        push @bad, $answer if !$is_whole;
        $left += !!wait_until(1, sub { !is_running($pid) });
    }
    is $whole, ROUNDS, "$kind: each response is whole"
        or diag explain \@bad;
    is $left, ROUNDS, "$kind: each child leaves within a second";
    ok eval { fetch('/index.html', $server->port) },
        "$kind: the server goes on";
}
no_crash($server->log);

# A page of about 5 ms that tells at its begin who serves it.
sub only_one {
    my ($client) = $server->begin('/probe-linked/slow?chunks=1&step_ms=5');

    sleep rand 0.010;
    kill TERM => $client->pid;
    my $rest = $client->rest(5);
    return ($client->pid, $rest =~ /\nEND\n\z/, $rest);
}

# A page of well under 1 ms, asked for before the signal.
sub one_of_many {
    my $client = Client->new($server->port);
    my $state  = $client->get_and_keep('/probe-linked/state', 5)->{body};
    my ($pid)  = $state =~ /^pid: (\d+)/m;

    $client->send_request('/probe-linked/state');
    sleep rand 0.001;
    kill TERM => $pid;
    my $answer = $client->answer(5);
    return ($pid, $answer->{body} eq $state, $answer);
}
