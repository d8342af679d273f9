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

# What mod_sigdefer costs when no signal comes: servers with it and without
# serve the same requests in turn, and so do one with SigDefer Off, and one with
# a module that only makes the system calls with which mod_sigdefer looks behind
# (bench/mod_reads.c).
#
#     bench/cost.pl [--pairs N] [--requests N] [--connections N]
#         [--mpm prefork,event] [--port PORT] [--module PATH] [--load PATH]
#         [--reads PATH] [--same] [--check]
#
# Writes build/bench/cost.json; the ratios of the pairs go to standard error
# as each row is done.  --same compares two servers without the module, and
# writes cost-same.json: what is found there is noise.  --check makes the exit
# status 1 if a bar is missed.
#
# CPU is that of the whole server, parent and children, while it serves
# --requests requests for a short static page.  Each pair has new servers, as
# many processes from start to end, on PORT and the next three; only one is
# asked at a time.  The parts of a pair are cut into slices that take turns in
# the order A B C D D C B A, so that what else the machine does, and how fast
# it runs at the moment, meets all.  The result is the median of the ratios of
# the pairs, loaded to stock, with the interval that holds the true median with
# at least 95 % probability (that of the sign test: order statistics, no
# assumption about the noise).  Besides there are the medians of "reads" to
# stock, and of loaded to "off".
#
# System calls are counted by strace in the children, over --connections
# connections to each server, in four parts.  How often some are made depends
# on timing: in the sum are those of which one server makes more in each of
# its parts than the other in any.  The rest is shown as noise.
#
# Memory is what the median child has for itself, written to.  Every child is
# looked at several times, after requests from more clients than can be served
# at a time, so that every thread has served: the allocators take memory and
# give it back now and then.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../scripts";

use BenchReport qw(print_table write_json median median_interval);
use File::Temp ();
use Getopt::Long qw(GetOptions);
use JSON::PP qw(decode_json);
use List::Util qw(max min sum0);
use POSIX ();
use PrivateHttpd;
use ServerCpu qw(cpu_seconds child_ids);

my @COLUMNS = qw(mpm keepalive pairs requests cpu_s_stock_median
    cpu_s_loaded_median ratio_median ratio_low95 ratio_high95
    ratio_reads_median ratio_off_median
    syscalls_added_per_connection memory_added_kib);

# The bars.
use constant {
    MOST_RATIO    => 1.01,
    MOST_SYSCALLS => 3,
    MOST_KIB      => 64,
};

use constant {
    CLIENTS             => 8,
    SLICES              => 50,
    PARTS               => 4,
    KEEPALIVE_REQUESTS  => 10,
    WARM_UP_REQUESTS    => 2_000,
    MEMORY_REQUESTS     => 10_000,
    MEMORY_LOOKS        => 5,
    TRACE_START_SECONDS => 20,

    # Fewer are not shown.
    LEAST_SHOWN => 0.05,
};

# Requests served at a time: a process each, or four processes of 16 threads.
my %WORKERS = (prefork => 8, worker => 64, event => 64);

my $REPO   = "$FindBin::Bin/..";
my %option = (
    pairs       => 15,
    requests    => 100_000,
    connections => 2_000,
    mpm         => 'prefork,event',
    port        => 18300,
    module      => "$REPO/build/mod_sigdefer.so",
    reads       => "$REPO/build/bench/mod_reads.so",
    load        => "$REPO/build/bench/load",
);
my @SERVERS = qw(stock reads off loaded);
my $temp;
my $tracer;

exit main();

sub main {
    GetOptions(\%option, 'pairs=i', 'requests=i', 'connections=i', 'mpm=s',
        'port=i', 'module=s', 'load=s', 'reads=s', 'same', 'check')
        && !@ARGV
        && $option{pairs} > 0
        && $option{requests} >= SLICES
        && $option{connections} >= PARTS
        or die "usage: see the head of $0\n";
    my @mpms = split /,/, $option{mpm};
    my ($unknown) = grep { !$WORKERS{$_} } @mpms;
    !defined $unknown or die "no such MPM: $unknown\n";
    -x $option{load} or die "$option{load} is missing: make it first\n";

    PrivateHttpd::exit_on(qw(INT TERM HUP));
    $temp = File::Temp->newdir('sigdefer-XXXXXX', TMPDIR => 1);

    my @rows;
    for my $mpm (@mpms) {
        push @rows, measure($mpm, $_) for 0, 1;
    }
    print_table(\@COLUMNS, \@rows);
    print "\n", map { calls_line($_) } @rows;
    my $file = write_json($option{same} ? 'cost-same' : 'cost', \@COLUMNS,
        \@rows);
    my @missed = map { missed($_) } @rows;
    print "\n$file\n", map { "MISSED: $_\n" } @missed;
    return $option{check} && @missed ? 1 : 0;
}

END {
    kill 'TERM', $tracer if $tracer;
}

# --- a row -----------------------------------------------------------------

sub measure {
    my ($mpm, $keep) = @_;
    my $name = $mpm . ($keep ? ', keep-alive' : '');
    my (%server, %cpu);

    for my $pair (1 .. $option{pairs}) {
        %server = start_servers($mpm, $pair);
        ask($_, $keep, WARM_UP_REQUESTS) for values %server;
        my %used = cpu_of_pair(\%server, $keep);
        push @{ $cpu{$_} }, $used{$_} for @SERVERS;
        $pair == $option{pairs} or $_->stop for values %server;
    }
    my ($stock, $loaded) = @server{qw(stock loaded)};
    my @ratios = ratios($cpu{loaded}, $cpu{stock});
    my ($low, $high) = median_interval(@ratios);
    print STDERR "$name: ratios",
        (map { sprintf ' %.3f', $_ } @ratios), "\n";
    my %added = added_calls($stock, $loaded, $keep);
    my $memory = own_memory($loaded) - own_memory($stock);

    $_->stop for values %server;
    return {
        mpm                           => $mpm,
        keepalive                     => $keep,
        pairs                         => $option{pairs},
        requests                      => $option{requests},
        cpu_s_stock_median            => sprintf('%.3f', median(@{ $cpu{stock} })),
        cpu_s_loaded_median           => sprintf('%.3f', median(@{ $cpu{loaded} })),
        ratio_median                  => sprintf('%.4f', median(@ratios)),
        ratio_low95                   => sprintf('%.4f', $low),
        ratio_high95                  => sprintf('%.4f', $high),
        ratio_reads_median            => sprintf('%.4f',
            median(ratios($cpu{reads}, $cpu{stock}))),
        ratio_off_median              => sprintf('%.4f',
            median(ratios($cpu{loaded}, $cpu{off}))),
        syscalls_added_per_connection => sprintf('%.2f',
            sum0(map { $_->{added} } grep { !$_->{noise} } values %added)),
        memory_added_kib              => $memory,
        name                          => $name,
        calls                         => \%added,
    };
}

# In ascending order.
sub ratios {
    my ($of, $to) = @_;
    return sort { $a <=> $b } map { $of->[$_] / $to->[$_] } 0 .. $#$to;
}

# New ones for each pair, each in turn the first to be started: which memory a
# server happens to get makes it faster or slower for as long as it lives, by
# more than what is looked for.
sub start_servers {
    my ($mpm, $pair) = @_;
    my %server;

    for my $i (0 .. $#SERVERS) {
        my $name = $SERVERS[($i + $pair) % @SERVERS];
        $server{$name} = start_server($name, $mpm, $option{port} + $i);
    }
    return %server;
}

sub start_server {
    my ($name, $mpm, $port) = @_;
    my %own = $option{same} ? () : (
        reads  => { modules  => ["reads=$option{reads}"] },
        off    => { sigdefer => $option{module}, conf => "SigDefer Off\n" },
        loaded => { sigdefer => $option{module} },
    );
    my $own = $own{$name} || {};
    my $httpd = PrivateHttpd->new(
        name     => "cost-$name",
        mpm      => $mpm,
        port     => $port,
        workers  => $WORKERS{$mpm},
        pages    => ["$FindBin::Bin/pages"],
        %$own,
        # httpd counts the requests that do not end the connection.
        conf => "ExtendedStatus Off\nMaxKeepAliveRequests "
            . (KEEPALIVE_REQUESTS - 1) . "\n"
            . ($own->{conf} // ''),
    );
    return $httpd->start;
}

# --- requests and CPU ------------------------------------------------------

sub cpu_of_pair {
    my ($server, $keep) = @_;
    my @turns = @SERVERS;
    my %cpu;

    for my $slice (1 .. SLICES) {
        my $requests = int($option{requests} * $slice / SLICES)
            - int($option{requests} * ($slice - 1) / SLICES);
        for my $name (@turns) {
            $cpu{$name} += cpu_of_requests($server->{$name}, $keep, $requests);
        }
        @turns = reverse @turns;
    }
    return %cpu;
}

sub cpu_of_requests {
    my ($httpd, $keep, $requests) = @_;
    my $before = cpu_seconds($httpd);

    ask($httpd, $keep, $requests);
    return cpu_seconds($httpd) - $before;
}

sub ask {
    my ($httpd, $keep, $requests, $clients) = @_;
    my ($port) = $httpd->url('') =~ /:(\d+)$/;
    my @command = ($option{load}, '-p', $port, '-u', '/static.html', '-e',
        "END\n", '-c', $clients // CLIENTS, '-n', $requests,
        $keep ? '-k' : ());

    open my $out, '-|', @command or die "$option{load}: $!\n";
    my $line = <$out> // '';
    close $out or die "failed: @command\n";
    decode_json($line)->{answered} == $requests
        or die "requests have failed: $line";
    return;
}

# --- system calls and memory -----------------------------------------------

# Calls of the loaded server above those of the stock one, a connection, by
# name, each with whether it is noise.
sub added_calls {
    my ($stock, $loaded, $keep) = @_;
    my $part     = int($option{connections} / PARTS);
    my $requests = $part * ($keep ? KEEPALIVE_REQUESTS : 1);
    my @turns    = ([$stock, \my @stock], [$loaded, \my @loaded]);
    my %added;

    for (1 .. PARTS) {
        for my $turn (@turns) {
            my ($httpd, $traces) = @$turn;
            push @$traces, { traced($httpd,
                sub { ask($httpd, $keep, $requests, 1) }) };
        }
        @turns = reverse @turns;
    }
    for my $name (map { keys %$_ } @stock, @loaded) {
        my ($without, $with) = map {
            [map { ($_->{$name} // 0) / $part } @$_]
        } \@stock, \@loaded;
        $added{$name} = {
            added => (sum0(@$with) - sum0(@$without)) / PARTS,
            noise => max(@$without) >= min(@$with)
                && max(@$with) >= min(@$without),
        };
    }
    return %added;
}

sub traced {
    my ($httpd, $work) = @_;

    start_tracer(child_ids($httpd));
    $work->();
    kill 'INT', $tracer;
    waitpid $tracer, 0;
    undef $tracer;

    my %calls = map { /^ *(\d+) (\w+)$/ ? ($2 => $1) : () }
        split /\n/, slurp("$temp/calls");
    defined delete $calls{total}
        or die "strace counted nothing:\n", slurp("$temp/log");
    return %calls;
}

# Returns once every thread of the children is traced.
sub start_tracer {
    my (@children) = @_;
    my $untraced = sub {
        grep { slurp($_) =~ /^TracerPid:\t0$/m }
            map { glob "/proc/$_/task/*/status" } @children;
    };

    $tracer = fork // die "fork: $!\n";
    if (!$tracer) {
        open STDERR, '>', "$temp/log";
        { exec 'strace', '-f', '-c', '-U', 'calls,name', '-o', "$temp/calls",
            map { ('-p', $_) } @children }
        print STDERR "strace: $!\n";
        POSIX::_exit(127);
    }
    PrivateHttpd::wait_until(TRACE_START_SECONDS, sub {
        undef $tracer if waitpid($tracer, POSIX::WNOHANG) > 0;
        return !$tracer || !$untraced->();
    }) && $tracer
        or die "strace cannot attach to httpd's children:\n",
        slurp("$temp/log");
    return;
}

# KiB.
sub own_memory {
    my ($httpd) = @_;

    return median(map {
        ask($httpd, 0, MEMORY_REQUESTS, 2 * $WORKERS{ $httpd->{mpm} });
        map { private_dirty($_) } child_ids($httpd);
    } 1 .. MEMORY_LOOKS);
}

sub private_dirty {
    my ($pid) = @_;

    slurp("/proc/$pid/smaps_rollup") =~ /^Private_Dirty:\s+(\d+) kB$/m
        or die "this kernel has no /proc/PID/smaps_rollup\n";
    return $1;
}

# A process may be gone by the time that its files are read.
sub slurp {
    my ($file) = @_;

    open my $in, '<', $file or return '';
    local $/;
    return scalar(<$in>) // '';
}

# --- the verdict -----------------------------------------------------------

sub calls_line {
    my ($row) = @_;
    my $calls = $row->{calls};
    my @shown = grep { abs $calls->{$_}{added} >= LEAST_SHOWN }
        sort keys %$calls;

    return $row->{name}, ': calls added to a connection: ',
        join(', ', map {
            sprintf '%s %+.2f%s', $_, $calls->{$_}{added},
                $calls->{$_}{noise} ? ' (noise)' : ''
        } @shown) || 'none', "\n";
}

sub missed {
    my ($row) = @_;
    my @bars = (
        [ratio_median                  => MOST_RATIO],
        [ratio_off_median              => MOST_RATIO],
        [syscalls_added_per_connection => MOST_SYSCALLS],
        [memory_added_kib              => MOST_KIB],
    );
    return map {
        my ($key, $most) = @$_;
        $row->{$key} > $most
            ? $row->{name} . ": $key is $row->{$key}, at most $most" : ();
    } @bars;
}
