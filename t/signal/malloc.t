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


# A handler of ours stores and returns: while the program is in and out of
# malloc all the time, signals hang nothing, and between the arrival and the
# return from the handler no system call is made but those that ask who this
# is and those that are about signals: no memory, no lock, no log.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use IPC::Open3;
use Symbol qw(gensym);
use Time::HiRes qw(sleep time);

my $strace = grep { -x "$_/strace" } split /:/, $ENV{PATH};

plan tests => 2 * 3 + 4, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $client = Client->new(port())->get("/probe-$variant/malloc?ms=2500");
    my ($pid) = $client->line_like(qr/^pid: /, 5) =~ /(\d+)/;

    send_usr2($pid, 1.5);
    my %answer = $client->rest(10) =~ /^(\w+): (\d+)/mg;
    ok $answer{rounds}, "$variant: the program ends in time";
    cmp_ok $answer{calls}, '>', 200, "$variant: after many signals";
    is probe($variant, 'stats')->{lost}, 0, "$variant: none is lost";
}

SKIP: {
    skip 'strace is not installed', 3 unless $strace;
    my $trace = Apache::Test::vars('t_logs') . '/strace';
    my $client = Client->new(port())->get('/probe-linked/malloc?ms=4000');
    my ($pid) = $client->line_like(qr/^pid: /, 10) =~ /(\d+)/;
    my $strace_pid = start_strace($pid, $trace)
        or skip 'strace may not attach to the server', 3;

    send_usr2($pid, 0.2);
    $client->rest(20);
    kill TERM => $strace_pid;
    waitpid $strace_pid, 0;

    my ($signals, $returns, @others) = in_handlers($trace);
    cmp_ok $signals, '>', 100, 'many signals are traced';
    # one more for each thread that was in a handler when strace came
    cmp_ok $returns, '>=', $signals, 'each handler returns';
    is_deeply \@others, [], 'and does nothing else before that';
}

no_crash($log);

# For a time that ends well before the program does: it has a handler then.
sub send_usr2 {
    my ($pid, $seconds) = @_;
    my $end = time + $seconds;

    while (time < $end) {
        kill USR2 => $pid;
        sleep 0.001;
    }
    return;
}

# Returns once the process is traced, or false.
sub start_strace {
    my ($pid, $trace) = @_;
    my $output = gensym;
    my $strace = open3(my $in, $output, $output,
        'strace', '-f', '-o', $trace, '-p', $pid);

    while (my $line = <$output>) {
        return $strace if $line =~ /attached/;
    }
    waitpid $strace, 0;
    return;
}

# How many signals came, how many handlers returned, and what they called.  At
# the end of a section the process sends itself what waited (SI_TKILL): that is
# ordinary code at work, and may call what it likes.  A call may take two lines,
# "<unfinished ...>" and "<... getpid resumed>", with others between them.
sub in_handlers {
    my ($trace) = @_;
    my ($signals, $returns, %running, @others) = (0, 0);

    for (split /\n/, PrivateHttpd::slurp($trace)) {
        my ($thread, $what) = /^(\d+)\s+(.*)$/ or next;
        my $stack = $running{$thread} //= [];

        if ($what =~ /^--- SIG(?:USR2|ALRM) \{.*si_code=(\w+)/) {
            push @$stack, $1;
            $signals++;
        }
        elsif ($what =~ /^rt_sigreturn/) {
            pop @$stack;
            $returns++;
        }
        elsif (@$stack && $stack->[-1] ne 'SI_TKILL') {
            push @others, $what
                if $what !~ /^(?:<... )?(?:getpid|gettid|tgkill|rt_\w+)\b/;
        }
    }
    return ($signals, $returns, @others);
}
