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

# A connection wakes one child of event, which may be full, be told to go or
# die before it accepts: others are woken then, at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use AcceptTest;
use Apache::Test '-withtestmore';

use File::Temp  ();
use IO::Select  ();
use Time::HiRes ();

use constant {
    REQUESTS => 200,
    THREADS  => 3,
    LATER_MS => 50,
    DEATHS   => 5,

    # httpd looks for dead children once a second
    AT_ONCE => 0.3,
};

my $exclusive = "SigDeferAcceptLock exclusive\n";

plan tests => 3 + (2 + 3 * DEATHS) + (3 + 2 * 2),
    need_sigdefer(
        { 'this MPM takes an accept lock' => mpm() eq 'event' },
        { 'the kernel does not say what a process waits for' =>
                -r '/proc/self/wchan' });

# One child is full and does not know it yet, the other one has threads that
# are idle.  More than one: httpd's event, having been woken in vain, keeps one
# for the next connection, and counts it as busy.
{
    my $server = two_children($exclusive);
    my @alone  = sort { $a <=> $b } map { milliseconds($server) } 1 .. REQUESTS;
    my $asked  = 0;
    my @late;

    for (1 .. 3 * REQUESTS) {
        my ($others, @slow) = fill_one($server);
        my $took = milliseconds($server);

        Client->finish(5, @slow);
        next if $others > THREADS - 2;
        push @late, $took if $took > $alone[-1] + LATER_MS;
        last if ++$asked == REQUESTS;
    }
    is $asked, REQUESTS, 'a child has been full that often';
    is scalar @late, 0, 'no request waits for the child that is full'
        or diag "@late; with none that is full: up to $alone[-1]";
    no_crash($server->log);
}

# A child has been woken, and is killed before it accepts.
{
    my $dir  = File::Temp->newdir(TMPDIR => 1);
    my $trap = "$dir/trap";
    my $preload = Apache::Test::vars('src_dir') . '/build/t/unlucky.so';

    # who falls into it removes it, as the user of the children
    chmod 0777, $dir or die "$dir: $!\n";
    my $server = two_children($exclusive, wrapper => [
        'env', 'UNLUCKY=accept', "UNLUCKY_TRAP=$trap", "LD_PRELOAD=$preload" ]);
    my $longest = 0;

    for my $death (1 .. DEATHS) {
        # worker threads, too: without one a child passes on
        wait_until(5, sub {
            those_in($server, qr/e(?:p_)?poll/) == 2
                && those_in($server, qr/futex/) == 2;
        }) or die "no two children wait\n";
        open my $out, '>', $trap or die "$trap: $!\n";
        close $out;
        my $client = Client->new($server->port)->get('/index.html');
        my $stuck =
            wait_until(5, sub { join ' ', those_in($server, qr/pause/) });

        ok $stuck, "death $death: a child is about to accept";
        ok !IO::Select->new($client->{socket})->can_read(0.2),
            "death $death: no other one was woken";
        my $start = Time::HiRes::time();
        kill KILL => $stuck;
        like eval { $client->rest(5) } // '', qr{^HTTP/1\.1 200 },
            "death $death: another one serves";
        my $took = Time::HiRes::time() - $start;
        $longest = $took if $took > $longest;
    }
    cmp_ok $longest, '<', AT_ONCE, 'it serves at once';
    no_crash($server->log); # httpd does not tell of KILL
}

# Children come and go: everybody is served.
{
    my $server = two_children($exclusive);
    my $load   = start_load($server);

    for my $signal (qw(HUP USR1)) {
        $server->restart($signal);
        ok wait_until(5, sub { $server->child_pids >= 2 }), "$signal: served";
        answers_on_all($server, 1, "$signal: nobody waits");
    }
    my ($answered, @failed) = finish_load($load);
    cmp_ok $answered, '>', 0, 'requests were answered';
    is "@failed", '', 'none was lost';
    no_crash($server->log);
}

# Each serves so many requests at a time.
sub two_children {
    my ($conf, %arg) = @_;
    my ($one, $both) = (THREADS, 2 * THREADS);

    return server(%arg, listeners => 1, conf => "ServerLimit 16\n"
        . "ThreadLimit $one\nThreadsPerChild $one\nMaxRequestWorkers $both\n"
        . "StartServers 2\nMinSpareThreads 1\nMaxSpareThreads $both\n$conf\n");
}

# Requests that take a while, until one of the children has no thread left; how
# many the other one serves then, and the clients.
sub fill_one {
    my ($server) = @_;
    my (@clients, %count);

    while (!grep { $_ == THREADS } values %count) {
        push @clients, $server->begin('/probe-linked/slow?chunks=1');
        $count{ $clients[-1]->pid }++;
    }
    return (@clients - THREADS, @clients);
}

sub milliseconds {
    my ($server) = @_;
    my $start = Time::HiRes::time();

    fetch('/index.html', $server->port);
    return 1000 * (Time::HiRes::time() - $start);
}

# Children of which a thread waits in that function of the kernel.
sub those_in {
    my ($server, $function) = @_;
    return grep { eval { waits_in($_, $function) } } $server->child_pids;
}
