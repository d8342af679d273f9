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

# What a lock costs that many contend for: ours beside those of APR and libc,
# between processes and between threads.  "make bench-locks" builds the program
# and runs this.
#
#     bench/locks.pl [--rounds N] [--operations N] [--quick] [--check]
#
# Writes build/bench/locks.json, and locks.svg by gnuplot.  --check makes the
# exit status 1 if a bar is missed.  --quick is for a look: one round of short
# runs, in which shares and waits mean nothing; no bar is missed then.
#
# Contenders lock, increment a counter and unlock, until together they have
# done so --operations times.  A run of a mechanism that makes system calls, or
# of one or eight contenders, is cut short: its figures are scaled from what it
# has done by then, after a warm-up, and marked.  They are the medians of the
# rounds.
# Each round runs every case, every second one in reverse order, so that what
# else the machine does meets all alike.  Ratios are taken within a round.
#
# The first rows, "whole", are runs as one would first think of: a million
# increments by 50, from before the first contender is started until the last
# one has ended.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use BenchReport qw(print_table write_json median);
use Contest qw(mechanisms contest);
use Getopt::Long qw(GetOptions);
use JSON::PP ();

my $OUTPUT     = "$FindBin::Bin/../build/bench";
my @CONTENDERS = (1, 2, 8, 50, 200);
my %IS_JUDGED  = map { $_ => 1 } 2, 50, 200;
my @COLUMNS    = qw(run mechanism by contenders kind operations
    seconds_per_million ns_per_op share_min share_max longest_wait_ms scaled);
my @FIGURES = qw(operations ns_per_op share_min share_max longest_wait_ms);

# These are run to the end, with as many contenders as are judged.
my %WHOLE = ('ours futex' => 1, 'ours pthread' => 1,
    map { ("libc $_" => 1) } qw(normal robust adaptive private));

my @WHOLE_RUNS = (
    ['threads libc normal', 'processes libc normal', 'processes apr fcntl'],
    ['threads ours futex', 'threads ours pthread'],
    ['processes ours futex', 'processes ours pthread', 'processes ours fcntl',
        'processes apr proc_pthread'],
);
use constant {
    WHOLE_CONTENDERS => 50,
    WHOLE_OPERATIONS => 1_000_000,
    SCALED_MS        => 100,
    QUICK_MS         => 30,
};

# The bars.
use constant {
    LEAST_APR_TO_PTHREAD => 100,
    MOST_FUTEX_TO_ROBUST => 1.15,
    LEAST_SHARE          => 0.15,
    MOST_WAIT_MS         => 1_000,
    MOST_TO_OWN_AT_2     => 2,
    MOST_FCNTL_TO_APR    => 1,
};

my %option = (rounds => 5, operations => 20_000_000);
GetOptions(\%option, 'rounds=i', 'operations=i', 'quick', 'check')
    && !@ARGV
    && $option{rounds} > 0
    && $option{operations} > 0
    or die "usage: see the head of $0\n";
$option{rounds} = 1 if $option{quick};

@SIG{qw(INT TERM HUP)} = (sub { die "interrupted\n" }) x 3;
exit main();

sub main {
    my @cases = map {
        my $lock = $_;
        map { { %$lock, contenders => $_ } } @CONTENDERS;
    } mechanisms();

    for my $round (1 .. $option{rounds}) {
        measure($_) for @cases;
        @cases = reverse @cases;
        print STDERR "round $round of $option{rounds}\n" if -t STDERR;
    }
    @cases = reverse @cases if $option{rounds} % 2;
    my @rows = ($option{quick} ? () : whole_rows(), map { row($_) } @cases);
    print_table(\@COLUMNS, \@rows);
    my @files = (write_json('locks', \@COLUMNS, \@rows), chart(\@rows));
    my @missed = judge(map { (name($_) => $_) } @cases);
    @missed = () if $option{quick};
    print "\n", (map { "$_\n" } @files), map { "MISSED: $_\n" } @missed;
    return $option{check} && @missed ? 1 : 0;
}

sub name {
    my ($case) = @_;
    return "@$case{qw(kind by mechanism contenders)}";
}

# --- measuring -------------------------------------------------------------

sub measure {
    my ($case) = @_;
    my $is_whole = $WHOLE{"@$case{qw(by mechanism)}"}
        && $IS_JUDGED{ $case->{contenders} };
    my $ms = $option{quick} ? QUICK_MS : $is_whole ? 0 : SCALED_MS;
    my $result = contest('locks', '-m', $ms,
        @$case{qw(kind by mechanism contenders)}, $option{operations});

    $result->{ns_per_op} = $result->{seconds} / $result->{operations} * 1e9;
    push @{ $case->{$_} }, $result->{$_} for @FIGURES;
    return;
}

sub row {
    my ($case) = @_;
    my %median = map { ($_ => median(@{ $case->{$_} })) } @FIGURES;

    return {
        run => 'barrier',
        (map { ($_ => $case->{$_}) } qw(mechanism by contenders kind)),
        operations          => int $median{operations},
        seconds_per_million => sprintf('%.4f', $median{ns_per_op} / 1e3),
        ns_per_op           => sprintf('%.1f', $median{ns_per_op}),
        share_min           => sprintf('%.3f', $median{share_min}),
        share_max           => sprintf('%.3f', $median{share_max}),
        longest_wait_ms     => sprintf('%.1f', $median{longest_wait_ms}),
        scaled => $median{operations} < $option{operations}
        ? JSON::PP::true
        : JSON::PP::false,
    };
}

sub whole_rows {
    return map { whole_row($_) } map { @$_ } @WHOLE_RUNS;
}

sub whole_row {
    my ($name) = @_;
    my ($kind, $by, $mechanism) = split ' ', $name;
    my $result = contest('locks', '-s', $kind, $by, $mechanism,
        WHOLE_CONTENDERS, WHOLE_OPERATIONS);

    return {
        run                 => 'whole',
        mechanism           => $mechanism,
        by                  => $by,
        contenders          => WHOLE_CONTENDERS,
        kind                => $kind,
        operations          => $result->{operations},
        seconds_per_million => sprintf('%.4f', $result->{seconds}),
        ns_per_op           => sprintf('%.1f', $result->{seconds} * 1e3),
        (map { ($_ => sprintf '%.3f', $result->{$_}) }
            qw(share_min share_max)),
        longest_wait_ms => sprintf('%.1f', $result->{longest_wait_ms}),
        scaled          => JSON::PP::false,
    };
}

# --- the chart -------------------------------------------------------------

# A block of the data for each line of the chart: its title, then its points.
sub chart {
    my ($rows) = @_;
    my ($data, $chart) = map { "$OUTPUT/locks.$_" } qw(dat svg);
    my %block;
    my %lines;
    my $text = '';

    for my $row (grep { $_->{run} eq 'barrier' } @$rows) {
        my $line = "@$row{qw(kind by mechanism)}";
        if (!defined $block{$line}) {
            $block{$line} = keys %block;
            push @{ $lines{"$row->{kind}_$row->{by}"} }, $block{$line};
            (my $title = "$row->{by}: $row->{mechanism}") =~ tr/_/-/;
            $text .= "\n\n" if $text;
            $text .= "\"$title\"\n";
        }
        $text .= "$row->{contenders} $row->{ns_per_op}\n";
    }
    open my $out, '>', $data or die "$data: $!\n";
    print {$out} $text;
    close $out or die "$data: $!\n";
    system('gnuplot', '-e', "data = '$data'; chart = '$chart'",
        (map { ('-e', "$_ = '@{ $lines{$_} }'") } sort keys %lines),
        "$FindBin::Bin/locks.gp") == 0 or die "gnuplot failed\n";
    return $chart;
}

# --- the bars: what is missed is returned ----------------------------------

sub judge {
    my %case  = @_;
    my $share = median(@{ $case{'processes ours futex 50'}{share_min} });
    my $wait  = median(@{ $case{'processes ours futex 50'}{longest_wait_ms} });
    my $ratio = sub {
        my ($one, $other) = map { $case{$_}{ns_per_op} } @_;
        return median(map { $one->[$_] / $other->[$_] } 0 .. $#$one);
    };

    print "\n";
    return grep { defined } (
        bar('50 processes, APR\'s default against pthread',
            $ratio->('processes apr proc_pthread 50',
                'processes ours pthread 50'),
            least => LEAST_APR_TO_PTHREAD),
        bar('50 processes, futex against libc\'s robust mutex',
            $ratio->('processes ours futex 50', 'processes libc robust 50'),
            most => MOST_FUTEX_TO_ROBUST),
        bar('50 processes, futex, smallest share', $share,
            least => LEAST_SHARE),
        bar('50 processes, futex, longest wait in ms', $wait,
            most => MOST_WAIT_MS),
        (map {
            my ($mechanism, $contenders) = @$_;
            bar("$contenders processes, $mechanism against itself at 2",
                $ratio->("processes ours $mechanism $contenders",
                    "processes ours $mechanism 2"),
                most => MOST_TO_OWN_AT_2);
        } map { ([$_, 50], [$_, 200]) } qw(pthread futex)),
        (map {
            bar("$_ processes, fcntl against APR's",
                $ratio->("processes ours fcntl $_", "processes apr fcntl $_"),
                most => MOST_FCNTL_TO_APR),
        } @CONTENDERS),
    );
}

sub bar {
    my ($what, $value, $side, $limit) = @_;
    my $line = sprintf '%s: %.3f (at %s %s)', $what, $value, $side, $limit;

    print "$line\n";
    return ($side eq 'most' ? $value > $limit : $value < $limit)
        ? $line : undef;
}
