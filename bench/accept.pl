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

# What the accept locks cost in the server: connections per second and CPU, for
# each of ours beside a stock httpd with each mechanism that Mutex knows.
#
#     bench/accept.pl [--pairs N] [--connections N] [--mpm prefork,worker,event]
#         [--port PORT] [--module PATH] [--load PATH] [--stock] [--check]
#
# Writes build/bench/accept.json, if it is not for some of the MPMs only.
# --stock leaves ours out.  --check makes the exit status 1 if a bar is missed.
#
# A connection is one request for a short static page, without keep-alive.  All
# of ours are judged, also by how they do against flock and fcntl, which need no
# module; what the module costs besides is in their figures.  How much that is,
# the rows by "module" say: flock by httpd itself, with the module.
# Clients are spread over the listening sockets; there are more children than
# clients, so that there is always one that waits.  With one socket, and in
# event, there is no lock: "none", with the module and without it.  event has as
# many children as it makes at most by default, and "exclusive" besides.
#
# All servers of a row's MPM and number of listeners run at the same time, and
# are asked in turn.  Each of the --pairs rounds has new ones, in another order,
# and serves --connections connections in each.  The ratio of two servers is that
# within a round; what is shown is the median, and the lower end of the
# interval that holds the true one with 95 % probability.
#
#   ratio_median, ratio_low95   connections per second against the best stock
#       mechanism that survives the death of a child, which posixsem does not
#   cpu_ratio_median            CPU against stock's default
#   child_cpu_min, _max         CPU of the child with the least and the most,
#       of the mean: how connections are spread

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../scripts";

use BenchReport qw(print_table write_json median median_interval);
use Contest qw(mechanisms);
use Getopt::Long qw(GetOptions);
use List::Util qw(max min);
use PrivateHttpd;
use ServerRound qw(server_round);

my @COLUMNS = qw(mpm listeners mechanism by connections_per_s cpu_s_per_100k
    failed pairs ratio_median ratio_low95 cpu_ratio_median child_cpu_min
    child_cpu_max);
my @CONFIGURATIONS = (
    [prefork => 1], [prefork => 2], [prefork => 8],
    [worker  => 2],
    [event   => 1], [event   => 2],
);

# default is pthread where there is one.
my @STOCK      = qw(default sysvsem posixsem fcntl flock);
my %IS_FRAGILE = (posixsem => 1);

# The bars.
use constant {
    LEAST_RATIO        => 0.97,
    MOST_CPU           => 0.92,
    MOST_CPU_EXCLUSIVE => 0.90,
};

use constant {
    CLIENTS           => 8,
    LEAST_CONNECTIONS => 32,
};

# Connections served at a time: a process each, or processes of 16 threads.
my %WORKERS = (prefork => 16, worker => 64, event => 256);

my $REPO   = "$FindBin::Bin/..";
my %option = (
    pairs       => 15,
    connections => 8_000,
    mpm         => 'prefork,worker,event',
    port        => 18500,
    module      => "$REPO/build/mod_sigdefer.so",
    load        => "$REPO/build/bench/load",
);

exit main();

sub main {
    GetOptions(\%option, 'pairs=i', 'connections=i', 'mpm=s', 'port=i',
        'module=s', 'load=s', 'stock', 'check')
        && !@ARGV
        && $option{pairs} > 0
        && $option{connections} >= LEAST_CONNECTIONS
        or die "usage: see the head of $0\n";
    my %wanted = map { $_ => 1 } split /,/, $option{mpm};
    my ($unknown) = grep { !$WORKERS{$_} } keys %wanted;
    !defined $unknown or die "no such MPM: $unknown\n";
    -x $option{load} or die "$option{load} is missing: make it first\n";

    PrivateHttpd::exit_on(qw(INT TERM HUP));

    my @rows = map { measure(@$_) } grep { $wanted{ $_->[0] } } @CONFIGURATIONS;
    print_table(\@COLUMNS, \@rows);
    my $name = keys %wanted < keys %WORKERS
        ? join('-', 'accept', sort keys %wanted) : 'accept';
    my $file = write_json($name, \@COLUMNS, \@rows);
    my @missed = map { missed($_) } @rows;
    print "\n$file\n", map { "MISSED: $_\n" } @missed;
    return $option{check} && @missed ? 1 : 0;
}

# --- the rows of one MPM and number of listeners -----------------------------

sub measure {
    my ($mpm, $listeners) = @_;
    my @cases = map {
        { mpm => $mpm, listeners => $listeners, failed => 0, %$_ }
    } locks_of($mpm, $listeners);

    $cases[$_]{port} = $option{port} + $_ * $listeners for 0 .. $#cases;
    for my $pair (1 .. $option{pairs}) {
        run_round(@cases);
        push @cases, shift @cases;
        print STDERR "$mpm, $listeners: $pair of $option{pairs}\n"
            if -t STDERR;
    }
    @cases = sort { $a->{port} <=> $b->{port} } @cases;
    my ($default) = grep { $_->{by} eq 'stock' } @cases;
    my $best = best_stock(@cases);
    return map { row($_, $best, $default) } @cases;
}

# What is compared.
sub locks_of {
    my ($mpm, $listeners) = @_;
    my $has_lock = $mpm ne 'event' && $listeners > 1;
    my %list     = (ours => ['none'], module => [], stock => ['none']);

    if ($has_lock) {
        my @ours = grep { $_->{by} eq 'ours' && $_->{kind} eq 'processes' }
            mechanisms();
        %list = (ours => [map { $_->{mechanism} } @ours],
            module => ['flock'], stock => \@STOCK);
    }
    elsif ($mpm eq 'event') {
        %list = (ours => ['exclusive'], module => ['none'], stock => ['none']);
    }
    return map {
        my $by = $_;
        map { { by => $by, mechanism => $_ } } @{ $list{$by} };
    } $option{stock} ? 'stock' : qw(ours module stock);
}

sub best_stock {
    my ($best) = sort { median(@{ $b->{rates} }) <=> median(@{ $a->{rates} }) }
        grep { $_->{by} eq 'stock' && !$IS_FRAGILE{ $_->{mechanism} } } @_;
    return $best;
}

sub row {
    my ($case, $best, $default) = @_;
    my @ratios = ratios($case, $best, 'rates');
    my ($low) = median_interval(@ratios);

    return {
        (map { ($_ => $case->{$_}) } qw(mpm listeners mechanism by failed)),
        connections_per_s => sprintf('%.0f', median(@{ $case->{rates} })),
        cpu_s_per_100k    => sprintf('%.3f', median(@{ $case->{cpu} })),
        pairs             => $option{pairs},
        ratio_median      => sprintf('%.4f', median(@ratios)),
        ratio_low95       => sprintf('%.4f', $low),
        cpu_ratio_median =>
            sprintf('%.4f', median(ratios($case, $default, 'cpu'))),
        child_cpu_min => sprintf('%.2f', median(@{ $case->{least} })),
        child_cpu_max => sprintf('%.2f', median(@{ $case->{most} })),
        best          => $best->{mechanism},
    };
}

sub ratios {
    my ($case, $other, $figure) = @_;
    my @sorted = sort { $a <=> $b }
        map { $case->{$figure}[$_] / $other->{$figure}[$_] }
        0 .. $#{ $case->{$figure} };
    return @sorted;
}

# --- a round -----------------------------------------------------------------

sub run_round {
    my @cases   = @_;
    my @results = server_round(
        load        => $option{load},
        clients     => CLIENTS,
        connections => $option{connections},
        servers     => [map { server_of($_) } @cases],
    );

    note_result($_, shift @results) for @cases;
    return;
}

sub server_of {
    my ($case) = @_;
    my ($by, $mechanism, $mpm) = @$case{qw(by mechanism mpm)};
    my %lock = (
        ours   => "SigDeferAcceptLock $mechanism\n",
        module => "SigDeferAcceptLock default\n"
            . ($mechanism eq 'none' ? '' : "Mutex $mechanism mpm-accept\n"),
        stock  => "Mutex $mechanism mpm-accept\n",
    );
    my $lock = $mechanism eq 'none' && $by ne 'module' ? '' : $lock{$by};

    return {
        name      => "accept-$by-$mechanism",
        mpm       => $mpm,
        port      => $case->{port},
        listeners => $case->{listeners},
        workers   => $WORKERS{$mpm},
        pages     => ["$FindBin::Bin/pages"],
        sigdefer  => $by eq 'stock' ? undef : $option{module},
        conf      => "ExtendedStatus Off\n$lock",
    };
}

sub note_result {
    my ($case, $result) = @_;

    $case->{failed} += $result->{failed};
    push @{ $case->{rates} }, $result->{rate};
    push @{ $case->{cpu} },   $result->{cpu};
    push @{ $case->{least} }, min(@{ $result->{children} });
    push @{ $case->{most} },  max(@{ $result->{children} });
    return;
}

# --- the verdict -------------------------------------------------------------

sub missed {
    my ($row) = @_;
    my $name = "$row->{mpm}, $row->{listeners} listeners, "
        . "$row->{mechanism} ($row->{by})";
    my $has_lock = $row->{by} eq 'ours' && $row->{mechanism} ne 'none';

    return (
        $row->{failed}
        ? "$name: $row->{failed} have failed" : (),
        $has_lock && $row->{ratio_low95} < LEAST_RATIO
        ? "$name: connections against stock's $row->{best}:"
            . " $row->{ratio_low95}, at least " . LEAST_RATIO
        : (),
        $has_lock && $row->{mpm} eq 'prefork' && $row->{listeners} == 2
            && $row->{cpu_ratio_median} > MOST_CPU
        ? "$name: CPU against stock's default: $row->{cpu_ratio_median},"
            . ' at most ' . MOST_CPU
        : (),
        $row->{mechanism} eq 'exclusive'
            && $row->{cpu_ratio_median} > MOST_CPU_EXCLUSIVE
        ? "$name: CPU against stock: $row->{cpu_ratio_median},"
            . ' at most ' . MOST_CPU_EXCLUSIVE
        : (),
    );
}
