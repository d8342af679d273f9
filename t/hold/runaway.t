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


# Many children in the middle of malloc() and free(): all are gone at the
# deadline, by themselves and without a crash, and the log names what they
# served.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(time);

use constant CHILDREN => 25;

my @pages = ('/endless.lua', has_php() ? '/endless.php' : ());

plan tests => 2 * 6, need_sigdefer('mod_lua.c');

for my $signal (qw(HUP TERM)) {
    my $server = server(
        workers => CHILDREN + 10,
        modules => [languages()],
        conf    => "SigDeferHoldTime 1\n" . one_thread_each(),
    );
    my ($clients, @pids) = busy_children($server);

    is scalar @pids, CHILDREN, "$signal: they run";
    my $signalled = time;
    $server->send_signal($signal);
    wait_until(4.5, sub { !grep { is_running($_) } @pids });
    is_deeply [grep { is_running($_) } @pids], [],
        sprintf "%s: all are gone at the deadline (%.1f s)", $signal,
        time - $signalled;
    $server->stop;
    is scalar(grep { $_->gone(1) } @$clients), scalar @$clients,
        "$signal: the connections, too";
    my %named = map { /child (\d+) ends "GET \/endless\.\w+"/ ? ($1 => 1) : () }
        $server->log->lines(qr/hold time of 1 s is over/);
    is_deeply [grep { !$named{$_} } @pids], [],
        "$signal: the log names each one's request";
    is_deeply [$server->log->lines(qr/was killed|SIGKILL/)], [],
        "$signal: none had to be killed";
    no_crash($server->log);
}

# A child has one request, so that there are many of both.
sub one_thread_each {
    my $children = CHILDREN;

    return mpm() eq 'prefork'
        ? ''
        : join "\n", 'ThreadsPerChild 1', "StartServers $children",
        'ServerLimit ' . 3 * $children, 'MaxRequestWorkers ' . 2 * $children,
        'MinSpareThreads 1', 'MaxSpareThreads ' . 2 * $children;
}

# event may give a child a second connection, which then waits.
sub busy_children {
    my ($server) = @_;
    my (@clients, %pids);

    for (my $end = time + 30; keys %pids < CHILDREN && time < $end;) {
        my $client = Client->new($server->port)->get($pages[@clients % @pages]);
        my $line   = eval { $client->line_like(qr/^pid: /, 2) } // '';

        push @clients, $client;
        $pids{$1} = 1 if $line =~ /(\d+)/;
    }
    return (\@clients, keys %pids);
}
