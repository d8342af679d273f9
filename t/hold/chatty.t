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


# A client that never stops sending on its connection keeps nobody: a child
# that has been asked to go gives it one more response at most, which says that
# the connection will be closed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(time);

my %clients = (
    'one request after the other' => \&in_turn,
    'all requests at once'        => \&pipelined,
);
my @signals = (
    mpm() eq 'prefork' ? ([ child => 'TERM' ]) : (),
    map { [ server => $_ ] } qw(HUP USR1 TERM),
);

plan tests => @signals * (keys(%clients) * 5 + 1), need_sigdefer();

for my $row (@signals) {
    my ($to, $signal) = @$row;
    my $server;

    for my $kind (sort keys %clients) {
        my $who = "$signal to the $to, $kind";

        $server = server(listeners => 1,
            conf => "KeepAlive On\nKeepAliveTimeout 60\n"
                . 'MaxKeepAliveRequests 0');
        my $client = Client->new($server->port);
        my $first  = $client->get_and_keep('/probe-linked/state', 5);
        my ($pid)  = $first->{body} =~ /^pid: (\d+)/m;
        my $signalled;
        my @answers = $clients{$kind}->($client, sub {
            kill $signal => $to eq 'child' ? $pid : $server->pid;
            $signalled = time;
        });

        cmp_ok time - $signalled, '<', 3, "$who: the connection ends";
        is_deeply [grep { !is_whole($_) } @answers], [],
            "$who: all responses are whole";
        my @says_close = map { says_close($_) } @answers;
        my $last       = pop @says_close;
        is scalar(grep { $_ } @says_close), 0,
            "$who: none follows one that says that it is the last";

        # else the child may have waited for a request when it was asked, or
        # in event have found none yet
        if ($kind =~ /at once/ && mpm() ne 'event') {
            ok $last, "$who: the last one says so";
        }
        elsif ($to eq 'child') {
            cmp_ok scalar(@answers), '<=', 1, "$who: at most one";
        }
        else {
            cmp_ok scalar(@answers), '<', 50_000, "$who: not many";
        }
        ok wait_until(2, sub { !is_running($pid) }), "$who: the child leaves";
    }
    no_crash($server->log);
}

# Up to the end of the connection.  After the tenth the signal is sent: what is
# answered from then on is returned.
sub in_turn {
    my ($client, $signal) = @_;
    my @answers;

    for my $n (1 .. 100_000) {
        $signal->() if $n == 10;
        my $answer = $client->get_and_keep('/probe-linked/state', 5);

        return @answers if $answer->{header} eq '';
        push @answers, $answer if $n >= 10;
    }
    return;
}

# Fewer than fill the buffers of the connection.
sub pipelined {
    my ($client, $signal) = @_;
    my @answers;

    $client->send_request('/probe-linked/slow?chunks=0&first_ms=50')
        for 1 .. 60;
    push @answers, $client->answer(5) for 1 .. 3;
    $signal->();
    while ($answers[-1]{header} ne '') {
        push @answers, $client->answer(5);
    }
    pop @answers;
    return @answers;
}

sub is_whole {
    my ($answer) = @_;
    return $answer->{body} =~ /^pid: \d+\n(?:END\n)?\z/m
        && $answer->{header} =~ m{^HTTP/1\.1 200 };
}

sub says_close {
    my ($answer) = @_;
    return scalar $answer->{header} =~ /^Connection: close$/m;
}
