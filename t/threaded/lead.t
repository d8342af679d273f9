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

# Who accepts: a thread that has just served, as long as there is one, and one
# that sleeps as soon as there is none.  Nobody who is idle does anything.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use List::Util qw(sum0);
use Time::HiRes qw(sleep time);

use constant {
    THREADS  => 8,
    REQUESTS => 30,
};

my @rows = map { my $sigdefer = $_; map { [$sigdefer, $_] } 1, 2 } 0, 1;

plan tests => 6 * @rows, need_threaded('lua');

for my $row (@rows) {
    my ($sigdefer, $listeners) = @$row;
    my $server = server(
        sigdefer  => $sigdefer,
        probe     => undef,
        modules   => ['lua'],
        listeners => $listeners,
        conf      => 'StartServers 1',
        workers   => THREADS,
    );
    my $who = "$listeners listeners" . ($sigdefer ? ', mod_sigdefer' : '');
    my ($child) = $server->child_pids;

    is_deeply idle_switches($child), {}, "$who: idle threads do nothing";

    my %served;
    $served{ thread($server->port) }++ for 1 .. REQUESTS;
    # where a thread has lost its CPU for a while, another one steps in
    my @most = (sort { $b <=> $a } values %served)[0 .. 2];
    cmp_ok sum0(grep {defined} @most), '>=', 0.8 * REQUESTS,
        "$who: one after the other is served by the same few";

    # all but one are busy, the last one leads
    my @slow = slow($server, THREADS - 1, 1500);
    my $begun = time;
    like thread($server->port), qr/^\d+$/, "$who: one that is free serves";
    cmp_ok time - $begun, '<', 1, "$who: at once";
    is scalar(grep { $_->rest(10) =~ /^END$/m } @slow), THREADS - 1,
        "$who: the others, too";

    # a burst is not served at the pace of a timer
    $begun = time;
    $_->rest(10) for slow($server, THREADS, 300);
    cmp_ok time - $begun, '<', 0.9, "$who: all at the same time";
}

sub thread {
    my ($port) = @_;
    return fetch('/thread.lua', $port) =~ /^thread: (\d+)/ ? $1 : '';
}

sub slow {
    my ($server, $count, $ms) = @_;
    return map { Client->new($server->port)->get("/thread.lua?ms=$ms") }
        1 .. $count;
}

# By thread, within a second.
sub idle_switches {
    my ($pid) = @_;

    sleep 0.3;
    my %before = switches($pid);
    sleep 1;
    my %now = switches($pid);
    return { map { $_ => $now{$_} - $before{$_} }
            grep { $now{$_} != $before{$_} } keys %now };
}

sub switches {
    my ($pid) = @_;
    return map {
        PrivateHttpd::slurp($_) =~ /^voluntary_ctxt_switches:\s+(\d+)/m
            ? ($_ => $1) : ()
    } glob "/proc/$pid/task/*/status";
}
