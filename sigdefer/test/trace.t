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

# What the engine's handler asks of the kernel, by a trace of a program that
# gets signals while it allocates: nothing where a signal is handled at once,
# getpid() where it is queued, and calls about signals in the replay.  So no
# memory, no lock, no log.
#
# SIGDEFER_TEST_BIN is the directory of the compiled tests.

use strict;
use warnings;

use File::Temp;
use Test::More;

my $bin     = $ENV{SIGDEFER_TEST_BIN} || 'build/test';
my $program = "$bin/test_torture";

# A queue is claimed once, under the id of its thread.
my %QUEUEING = map { $_ => 1 } '', 'getpid', 'getpid gettid';
my %REPLAY   = map { $_ => 1 } qw(getpid gettid tgkill rt_tgsigqueueinfo
    rt_sigaction rt_sigpending rt_sigprocmask);

sub can_trace {
    open my $null, '>', '/dev/null' or die "/dev/null: $!";
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        open STDERR, '>&', $null or die;
        exec 'strace', '-o', '/dev/null', 'true' or exit 127;
    }
    waitpid $pid, 0;
    return $? == 0;
}

# The signals of a trace, each as its line and the calls made between its
# entry and its return, those of signals that interrupted it left out.
sub signals_of {
    my ($log) = @_;
    my (%open, @done);

    while (my $line = <$log>) {
        my ($pid, $rest) = $line =~ /^(\d+)\s+(.*)/ or next;
        my $stack = $open{$pid} ||= [];

        if ($rest =~ /^--- (SIG\w+) /) {
            push @$stack, { line => $rest, pid => $pid, calls => [] };
        }
        elsif ($rest =~ /^rt_sigreturn\(/) {
            push @done, pop @$stack if @$stack;
        }
        elsif (@$stack && $rest =~ /^(\w+)\(/) {
            push @{ $stack->[-1]{calls} }, $1;
        }
    }
    return @done;
}

# Sent by the thread to itself: it starts the replay.
sub is_bell {
    my ($signal) = @_;

    return $signal->{line} =~ /si_code=SI_TKILL, si_pid=$signal->{pid}\b/;
}

plan skip_all => "no $program: build the tests first" unless -x $program;
plan skip_all => 'strace is missing, or may not trace' unless can_trace();

my $trace = File::Temp->new;
my $said  = `strace -f -qq -o $trace $program allocating 2>&1`;
is $?, 0, 'the traced program has passed' or diag $said;

open my $log, '<', $trace->filename or die "trace: $!";
my @signals = signals_of($log);
my @bells   = grep { is_bell($_) } @signals;
my @arrived = grep { !is_bell($_) } @signals;
my %count;
$count{$_}++ for map { join ' ', @{ $_->{calls} } } @arrived;

# One that arrives just as a section is left finds the queue not empty, and
# has it worked off in its own frame; how many do depends on the load.
my @other   = grep { !$QUEUEING{$_} && !/rt_sigprocmask/ } sort keys %count;
my @foreign = grep { !$REPLAY{$_} } map { @{ $_->{calls} } } @signals;

cmp_ok scalar @arrived, '>', 500, 'signals arrived: ' . @arrived;
cmp_ok $count{''}       || 0, '>', 100, 'signals handled without a call';
cmp_ok $count{'getpid'} || 0, '>', 10,  'signals queued with one getpid()';
cmp_ok scalar @bells, '>', 10, 'replays: ' . @bells;
is_deeply \@other,   [], 'nothing else asked of the kernel but by a replay';
is_deeply \@foreign, [], 'and by that about signals only';

done_testing;
