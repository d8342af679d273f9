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


# What the tests of accept locks have in common: a server with several children
# in the MPMs that have one alike, and who of them holds the lock.
#
#     my $server = accept_server(listeners => 8, conf => '...');
#     my $pid    = holder($server);
#     my $load   = start_load($server);
#     my ($answered, @failed) = finish_load($load);
#
# Who holds the lock waits in epoll_wait() for connections, all others for the
# lock.

package AcceptTest;

use strict;
use warnings;

use Exporter    qw(import);
use IO::Select  ();
use POSIX       ();
use Test::More  ();
use Time::HiRes ();

use SigDeferTest;

our @EXPORT = qw(accept_server answers_on_all finish_load holder lock_name
    need_accept_lock recoveries start_load waits_in);

use constant CHILDREN => 4;

my $THREADS = "ServerLimit 16\nThreadLimit 2\nThreadsPerChild 2\n"
    . "MaxRequestWorkers 8\nStartServers " . CHILDREN . "\n"
    . "MinSpareThreads 8\nMaxSpareThreads 10\n";
my %PROCESSES = (
    prefork  => "MinSpareServers " . CHILDREN . "\n",
    worker   => $THREADS,
    event    => '',
    threaded => $THREADS,
);

# For the plan.
sub need_accept_lock {
    return need_sigdefer(
        { 'this MPM takes no accept lock' => mpm() ne 'event' },
        { 'the kernel does not say what a process waits for' =>
                -r '/proc/self/wchan' }, @_);
}

sub accept_server {
    my (%arg) = @_;

    return server(%arg, workers => CHILDREN,
        conf => $PROCESSES{ mpm() } . 'LogLevel info mpm_' . mpm()
            . ":debug\n" . ($arg{conf} // ''));
}

# Threads that wait in that function of the kernel.
sub waits_in {
    my ($pid, $function) = @_;
    return scalar grep { PrivateHttpd::slurp($_) =~ $function }
        glob "/proc/$pid/task/*/wchan";
}

# Once all children wait, one of them for connections; the main thread of a
# threaded MPM waits in another poll.
sub holder {
    my ($server) = @_;
    my @holders;

    wait_until(10, sub {
        my @pids = $server->child_pids;

        @holders = grep { eval { waits_in($_, qr/e(?:p_)?poll/) } } @pids;
        return @pids >= CHILDREN && @holders == 1;
    }) or die "holders: @holders of ", join(' ', $server->child_pids), "\n";
    return $holders[0];
}

# The lock's name, as the MPM itself has logged it last.
sub lock_name {
    my ($server) = @_;
    my @names = $server->error_log =~ /Accept mutex: (\S+)/g;

    return $names[-1];
}

sub recoveries {
    my ($server) = @_;
    return scalar $server->log->lines(qr/:notice\].*accept lock recovered/);
}

# A test: a request on each port, within so many seconds.
sub answers_on_all {
    my ($server, $seconds, $what) = @_;
    my $start = Time::HiRes::time();
    my @failed = grep {
        my $port = $_;
        !eval { fetch('/index.html', $port) };
    } $server->ports;
    my $took = Time::HiRes::time() - $start;
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Test::More::ok(!@failed && $took < $seconds, $what)
        || Test::More::diag("failed on ports: @failed; took $took s");
}

# Requests on all ports, from a process of its own, until a pipe is closed: a
# signal would end a request, too.
sub start_load {
    my ($server) = @_;

    pipe my $until, my $stop or die "pipe: $!\n";
    my $pid = open my $out, '-|';

    defined $pid or die "fork: $!\n";
    if ($pid) {
        return { stop => $stop, out => $out };
    }
    close $stop;
    my ($answered, @failed) = (0);

    while (!IO::Select->new($until)->can_read(0)) {
        for my $port ($server->ports) {
            eval { fetch('/index.html', $port) }
                ? $answered++
                : push @failed, $@;
        }
    }
    syswrite STDOUT, join '', "$answered\n", @failed;
    POSIX::_exit(0);
}

# How many were answered, and what was said of each that was not.
sub finish_load {
    my ($load) = @_;

    close $load->{stop};
    chomp(my @lines = readline $load->{out});
    close $load->{out};
    return @lines;
}

1;
