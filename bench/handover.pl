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

# What accept does with a lock: it is held for long and then handed over to one
# of many that wait.  "make bench-handover" builds the program and runs this.
#
#     bench/handover.pl [--rounds N] [--count N]
#
# Writes build/bench/handover.json.  Processes hold the lock for HOLD_US, hand
# it over, are busy for WORK_US and come back, until it has been handed over
# --count times.  The latency is from before the release until somebody else
# has the lock who waited for it when it was released; "waited" is the part of
# the hand-overs of which this is so, the others went to one who came along.
# "switches" are context switches of all contenders, for each hand-over.
# Figures are the medians of the rounds, which run all cases in turn.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use BenchReport qw(report median);
use Contest qw(mechanisms contest);
use Getopt::Long qw(GetOptions);

my @CONTENDERS = (2, 8, 50);
my @COLUMNS    = qw(mechanism by contenders hold_us handovers waited
    latency_us_median latency_us_p99 switches_per_handover);
my @FIGURES = qw(waited median_us p99_us switches);

use constant {
    HOLD_US => 20,
    WORK_US => 10,
};

my %option = (rounds => 5, count => 10_000);
GetOptions(\%option, 'rounds=i', 'count=i')
    && !@ARGV
    && $option{rounds} > 0
    && $option{count} > 0
    or die "usage: see the head of $0\n";

@SIG{qw(INT TERM HUP)} = (sub { die "interrupted\n" }) x 3;

my @cases = map {
    my $lock = $_;
    map { { %$lock, contenders => $_ } } @CONTENDERS;
} grep { $_->{kind} eq 'processes' } mechanisms();

for (1 .. $option{rounds}) {
    measure($_) for @cases;
}
print "\n", report('handover', \@COLUMNS, [map { row($_) } @cases]), "\n";

sub measure {
    my ($case) = @_;
    my $result = contest('handover', '-h', HOLD_US, '-w', WORK_US,
        @$case{qw(kind by mechanism contenders)}, $option{count});

    $result->{waited} /= $result->{handovers};
    push @{ $case->{$_} }, $result->{$_} for @FIGURES;
    return;
}

sub row {
    my ($case) = @_;
    my %median = map { ($_ => median(@{ $case->{$_} })) } @FIGURES;

    return {
        (map { ($_ => $case->{$_}) } qw(mechanism by contenders)),
        hold_us               => HOLD_US,
        handovers             => $option{count},
        waited                => sprintf('%.3f', $median{waited}),
        latency_us_median     => sprintf('%.2f', $median{median_us}),
        latency_us_p99        => sprintf('%.2f', $median{p99_us}),
        switches_per_handover => sprintf('%.2f', $median{switches}),
    };
}
