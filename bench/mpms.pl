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

# What the MPM threaded costs beside stock worker and event, at the same numbers
# of processes and threads: connections per CPU second, and memory.
#
#     bench/mpms.pl [--pairs N] [--connections N] [--port PORT]
#         [--mpms threaded,...] [--module PATH] [--load PATH] [--check]
#
# Writes build/bench/mpms.json.  --check makes the exit status 1 if a bar is
# missed.
#
# Without keep-alive a connection is one request for a short static page; with
# it, what is counted is requests, on connections that are kept.  One listening
# socket, where no lock is taken, and two.  "+ sigdefer" has mod_sigdefer
# loaded, with its lock and its hold; the others have neither.
#
# All run at the same time and are asked in turn.  The ratio of two is that of
# the CPU within a round; what is shown is the median, and the interval that
# holds the true one with 95 % probability.
#
#   by_worker, by_event   connections per CPU second, against theirs
#   idle_kib, used_kib    memory of the children by connection slot, before the
#                         first connection and after the last

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../scripts";

use BenchReport qw(report median median_interval);
use Getopt::Long qw(GetOptions);
use PrivateHttpd;
use ServerRound qw(server_round);

my @COLUMNS = qw(listeners keep mpm connections_per_s per_cpu_s by_worker
    by_worker_95 by_event by_event_95 idle_kib used_kib failed pairs);
my @FORMS = ([1, 0], [2, 0], [1, 1], [2, 1]);

# The bars, for what is without a "+".
use constant {
    LEAST_BY_EVENT  => 1.5,
    LEAST_BY_WORKER => 1.07,

    # With keep-alive no worse, as far as can be told: the high end of the
    # interval.
    LEAST_KEPT => 1,

    # But for what the same server differs by from itself.
    MOST_KIB => 1.02,
};

use constant {
    WORKERS => 64, # 4 processes
    CLIENTS => 8,
};

my $REPO   = "$FindBin::Bin/..";
my %option = (
    pairs       => 15,
    connections => 8_000,
    port        => 18500,
    mpms        => 'worker,event,threaded,threaded + sigdefer',
    module      => "$REPO/build/mod_sigdefer.so",
    load        => "$REPO/build/bench/load",
);

exit main();

sub main {
    GetOptions(\%option, 'pairs=i', 'connections=i', 'port=i', 'mpms=s',
        'module=s', 'load=s', 'check')
        && !@ARGV
        && $option{pairs} > 0
        && $option{connections} > 0
        or die "usage: see the head of $0\n";
    -x $option{load} or die "$option{load} is missing: make it first\n";
    PrivateHttpd::exit_on(qw(INT TERM HUP));

    my @rows   = map { measure(@$_) } @FORMS;
    my $file   = report('mpms', \@COLUMNS, \@rows);
    my @missed = map { missed($_, @rows) } @rows;
    print "\n$file\n", map { "MISSED: $_\n" } @missed;
    return $option{check} && @missed ? 1 : 0;
}

# --- the rows of one form ------------------------------------------------------

sub measure {
    my ($listeners, $keep) = @_;
    my @mpms = split /,/, $option{mpms};
    my @servers = map { {
        name      => 'mpms-' . ($mpms[$_] =~ s/\W+/-/r),
        mpm       => $mpms[$_] =~ /^(\w+)/,
        of        => $mpms[$_],
        port      => $option{port} + 2 * $_,
        listeners => $listeners,
        workers   => WORKERS,
        pages     => ["$FindBin::Bin/pages"],
        sigdefer  => $mpms[$_] =~ /sigdefer/ ? $option{module} : undef,
        conf      => "ExtendedStatus Off\nMaxKeepAliveRequests 0\n",
    } } 0 .. $#mpms;
    my %results;

    for my $pair (1 .. $option{pairs}) {
        my @results = server_round(
            load        => $option{load},
            clients     => CLIENTS,
            connections => $option{connections},
            keep        => $keep,
            servers     => \@servers,
        );
        push @{ $results{ $_->{of} } }, shift @results for @servers;
        push @servers, shift @servers;
        print STDERR "$listeners, $keep: $pair of $option{pairs}\n"
            if -t STDERR;
    }
    return map { row($listeners, $keep, $_, \%results) } @mpms;
}

sub row {
    my ($listeners, $keep, $mpm, $results) = @_;
    my @own    = @{ $results->{$mpm} };
    my $failed = 0;

    $failed += $_->{failed} for @own;
    return {
        listeners         => $listeners,
        keep              => $keep,
        mpm               => $mpm,
        connections_per_s =>
            sprintf('%.0f', median(map { $_->{rate} } @own)),
        per_cpu_s => sprintf('%.0f', median(map { 100_000 / $_->{cpu} } @own)),
        (map { against($_, \@own, $results->{$_}) } qw(worker event)),
        (map {
            my $kib = $_;
            $kib => sprintf('%.1f', median(map { $_->{$kib} } @own) / WORKERS);
        } qw(idle_kib used_kib)),
        failed => $failed,
        pairs  => $option{pairs},
    };
}

sub against {
    my ($name, $own, $others) = @_;
    return if !$others;
    my @ratios = sort { $a <=> $b }
        map { $others->[$_]{cpu} / $own->[$_]{cpu} } 0 .. $#$own;

    return (
        "by_$name"      => sprintf('%.3f', median(@ratios)),
        "by_${name}_95" => sprintf('%.3f to %.3f', median_interval(@ratios)),
    );
}

# --- the verdict ---------------------------------------------------------------

sub missed {
    my ($row, @rows) = @_;
    my ($worker) = grep {
        $_->{mpm} eq 'worker' && $_->{listeners} == $row->{listeners}
            && $_->{keep} == $row->{keep}
    } @rows;
    my $name = "$row->{mpm}, $row->{listeners} listeners"
        . ($row->{keep} ? ', keep-alive' : '');
    my @bars = ([failed => $row->{failed} == 0]);

    if ($row->{mpm} eq 'threaded') {
        my ($high) = $row->{by_worker_95} =~ /to (.*)/;

        push @bars, $row->{keep}
            ? [by_worker_95 => $high >= LEAST_KEPT]
            : ([by_worker => $row->{by_worker} >= LEAST_BY_WORKER],
                [by_event => $row->{by_event} >= LEAST_BY_EVENT]),
            map { [$_ => $row->{$_} <= MOST_KIB * $worker->{$_}] }
            qw(idle_kib used_kib);
    }
    return map { "$name: $_->[0] $row->{ $_->[0] }" } grep { !$_->[1] } @bars;
}
