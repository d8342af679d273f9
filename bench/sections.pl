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

# What a section costs: a pair of enter and leave in a loop, then an embedded
# interpreter whose allocator is bracketed.  "make bench-sections" builds the
# two programs and runs this.
#
#     bench/sections.pl [--rounds N] [--script-rounds N] [--check]
#
# Writes build/bench/sections.json.  --check makes the exit status 1 if a bar
# is missed.
#
# The cases: empty, nothing; macro, SIGDEFER_ENTER and SIGDEFER_LEAVE; call,
# ap_block_alarms and ap_unblock_alarms; mask, two calls of pthread_sigmask.
#
# Time is the median of many rounds, each of which runs every case, so that
# what disturbs the machine disturbs all alike.  Instructions are counted by
# callgrind, thus exact, but in user space only: the kernel's side of the two
# system calls of a mask shows in the time alone.  Lua hashes its strings with
# a seed taken from the clock and from addresses: two runs of a script differ
# by some 0.03 %.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use BenchReport qw(print_table write_json median);
use File::Temp ();
use Getopt::Long qw(GetOptions);
use POSIX ();

my $PROGRAMS = "$FindBin::Bin/../build/bench";
my @CASES = qw(empty macro call mask);
my @WORKLOADS = qw(array heavy);

# Pairs timed in one run: fewer where each takes a system call or two.
my %PAIRS = (
    empty => 50_000_000,
    macro => 50_000_000,
    call  => 50_000_000,
    mask  => 500_000,
);
use constant COUNTED_PAIRS => 1_000;

# The bars: instructions of a macro pair above the empty loop, by machine, and
# how many times cheaper than masks it is.
my %MOST_INSTRUCTIONS = (x86_64 => 5, aarch64 => 10);
use constant LEAST_RATIO => 50;

my @PAIR_COLUMNS = qw(case ns_per_pair instructions_per_pair);
my @SCRIPT_COLUMNS = qw(case workload seconds instructions block_calls
    unblock_calls);

my %option = (rounds => 21, 'script-rounds' => 9);
GetOptions(\%option, 'check', 'rounds=i', 'script-rounds=i')
    && !@ARGV
    && $option{rounds} > 0
    && $option{'script-rounds'} > 0
    or die "usage: see the head of $0\n";

# A valgrind left alone would run on for a minute.
my %running;
@SIG{qw(INT TERM HUP)} = (sub { die "interrupted\n" }) x 3;
END { kill 'TERM', keys %running if %running }

my $temp = File::Temp->newdir('sigdefer-XXXXXX', TMPDIR => 1);
exit main();

sub main {
    my @pairs   = pair_rows();
    my @scripts = script_rows();

    print "A pair of enter and leave\n\n";
    print_table(\@PAIR_COLUMNS, \@pairs);
    my @missed = judge_pairs(map { $_->{case} => $_ } @pairs);
    print "\nA Lua script, its allocator bracketed\n\n";
    print_table(\@SCRIPT_COLUMNS, \@scripts);
    push @missed, judge_scripts(@scripts);
    my %seen;
    my $file = write_json('sections',
        [grep { !$seen{$_}++ } @PAIR_COLUMNS, @SCRIPT_COLUMNS],
        [@pairs, @scripts]);
    print "\n$file\n", map { "MISSED: $_\n" } @missed;
    return $option{check} && @missed ? 1 : 0;
}

# --- the rows --------------------------------------------------------------

sub pair_rows {
    my %seconds = interleaved($option{rounds},
        map { $_ => ['sections', $_, $PAIRS{$_}] } @CASES);
    my %counted = callgrind(map { pair_counts($_) } @CASES);

    return map { {
        case        => $_,
        ns_per_pair => sprintf('%.3f', $seconds{$_} / $PAIRS{$_} * 1e9),
        instructions_per_pair =>
            ($counted{"$_-2"}{instructions} - $counted{"$_-1"}{instructions})
            / COUNTED_PAIRS,
    } } @CASES;
}

# Counted with N pairs and with twice as many: the difference is free of what
# comes before and after the loop.
sub pair_counts {
    my ($case) = @_;
    return map {
        ("$case-$_" => [["--toggle-collect=run_$case"],
            'sections', $case, $_ * COUNTED_PAIRS])
    } 1, 2;
}

sub script_rows {
    my @runs = map {
        my $workload = $_;
        map { [$_, $workload] } @CASES;
    } @WORKLOADS;
    my %seconds = interleaved($option{'script-rounds'},
        map { ("@$_" => ['lua_alloc', $_->[1], $_->[0]]) } @runs);
    my %counted = callgrind(
        map { ("@$_" => [[], 'lua_alloc', $_->[1], $_->[0]]) } @runs);

    return map { {
        case     => $_->[0],
        workload => $_->[1],
        seconds  => sprintf('%.4f', $seconds{"@$_"}),
        %{ $counted{"@$_"} },
    } } @runs;
}

# --- measuring -------------------------------------------------------------

# Runs each of the named commands once a round, every second round in reverse
# order, and returns the median of the seconds that each one printed.
sub interleaved {
    my ($rounds, %command) = @_;
    my @names = sort keys %command;
    my %seconds;

    for my $round (1 .. $rounds) {
        for my $name (@names) {
            push @{ $seconds{$name} }, seconds_of(@{ $command{$name} });
        }
        @names = reverse @names;
    }
    return map { $_ => median(@{ $seconds{$_} }) } @names;
}

sub seconds_of {
    my ($program, @arguments) = @_;

    open my $out, '-|', "$PROGRAMS/$program", @arguments
        or die "$PROGRAMS/$program: $!\n";
    my $line = <$out> // '';
    close $out or die "failed: $program @arguments\n";
    $line =~ /^(\d+\.\d+)$/ or die "$program printed '$line'\n";
    return $1;
}

# Each job is NAME => [[VALGRIND'S OPTIONS], PROGRAM, ARGUMENTS].  As many run
# at a time as there are processors: nothing is timed here.
sub callgrind {
    my %job  = @_;
    my @todo = sort keys %job;
    my ($most) = qx(nproc) =~ /^(\d+)$/ or die "nproc failed\n";

    while (@todo || %running) {
        if (@todo && keys %running < $most) {
            my $name = shift @todo;
            $running{ start_callgrind($name, @{ $job{$name} }) } = $name;
        }
        else {
            my $name = delete $running{ wait() } // next;
            $? == 0 or die "valgrind failed:\n", slurp("$temp/$name.log");
        }
    }
    return map { $_ => parse_callgrind(slurp("$temp/$_.out")) } keys %job;
}

sub start_callgrind {
    my ($name, $options, $program, @arguments) = @_;
    my $pid = fork // die "fork: $!\n";

    return $pid if $pid;
    @SIG{qw(INT TERM HUP)} = ('DEFAULT') x 3;
    open STDOUT, '>', '/dev/null';
    open STDERR, '>', "$temp/$name.log";
    { exec 'valgrind', '--tool=callgrind', '--compress-strings=no',
        "--callgrind-out-file=$temp/$name.out", @$options,
        "$PROGRAMS/$program", @arguments }
    print STDERR "valgrind: $!\n";
    POSIX::_exit(127);
}

# A function's callers are listed apart, each with its number of calls.
sub parse_callgrind {
    my ($text) = @_;
    my %calls = (ap_block_alarms => 0, ap_unblock_alarms => 0);

    while ($text =~ /^cfn=(\w+)[^\n]*\ncalls=(\d+)/mg) {
        $calls{$1} += $2 if exists $calls{$1};
    }
    $text =~ /^totals: (\d+)$/m or die "callgrind counted nothing\n";
    return {
        instructions  => $1,
        block_calls   => $calls{ap_block_alarms},
        unblock_calls => $calls{ap_unblock_alarms},
    };
}

sub slurp {
    my ($file) = @_;

    open my $in, '<', $file or die "$file: $!\n";
    local $/;
    return scalar(<$in>) // '';
}

# --- the bars: what is missed is returned ----------------------------------

# The ratio of the plain times is the harder bar: taking the loop's own time
# away from both makes it larger, and where it is the macro that is lost in
# the loop, meaningless.
sub judge_pairs {
    my %row = @_;
    my ($empty, $macro, $mask) = map { $row{$_}{ns_per_pair} }
        qw(empty macro mask);
    my $instructions = $row{macro}{instructions_per_pair}
        - $row{empty}{instructions_per_pair};
    my $most  = $MOST_INSTRUCTIONS{ (POSIX::uname())[4] };
    my $ratio = $mask / $macro;

    print "\nInstructions of the macro above the empty loop: $instructions",
        defined $most ? " (at most $most)\n" : "\n";
    printf "Masks against the macro, the loop included in both:"
        . " %.0f times (at least %d)\n", $ratio, LEAST_RATIO;
    print 'Masks against the macro, the loop taken off both: ',
        $macro > $empty
        ? sprintf("%.0f times\n", ($mask - $empty) / ($macro - $empty))
        : "the macro is as fast as the empty loop\n";
    return (
        defined $most && $instructions > $most
        ? "macro: $instructions instructions above the empty loop"
        : (),
        $ratio < LEAST_RATIO
        ? sprintf('macro: only %.1f times cheaper than masks', $ratio)
        : (),
    );
}

sub judge_scripts {
    my @rows = @_;
    my @missed;

    for my $row (@rows) {
        my ($block, $unblock) = @$row{qw(block_calls unblock_calls)};
        if ($row->{case} eq 'call' ? !$block || $block != $unblock
            : $block + $unblock)
        {
            push @missed, "$row->{workload}, $row->{case}: $block and"
                . " $unblock calls";
        }
    }
    return @missed;
}
