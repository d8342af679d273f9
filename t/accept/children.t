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


# Children that come and go, listeners in several buckets, and how many children
# wake up for a connection.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use AcceptTest;
use Apache::Test '-withtestmore';

use Time::HiRes ();

use constant {
    FEW      => 60,
    REQUESTS => 200,
    BUCKETS  => 500,
};

plan tests => 3 + 5 + 2, need_accept_lock();

# A child that has served its share leaves the lock as it should.
{
    my $server = accept_server(conf => "MaxConnectionsPerChild 5\n");

    # httpd looks once a second whether it needs more of them
    is_deeply { requests($server, FEW, 3) }, {},
        'children that serve 5: all served';
    is recoveries($server), 0, 'and none has died with the lock';
    no_crash($server->log);
}

# A lock for each bucket of listeners: who holds one must not wait for the
# connections of another, or with a lock for all of them service stops.
SKIP: {
    my $server = accept_server(
        conf => "ListenCoresBucketsRatio 1\nSigDeferAcceptLock fcntl\n");
    my $locks = files_of_locks($server);

    skip 'one bucket only on this machine', 5 if $locks < 2;
    is_deeply { requests($server, BUCKETS) }, {},
        'buckets: all served, none after more than a second';
    $server->restart($_) for qw(HUP USR1);
    is_deeply { requests($server, BUCKETS) }, {}, 'buckets: after restarts';
    # the last of their children may just be leaving
    wait_until(5, sub { files_of_locks($server) == $locks });
    is files_of_locks($server), $locks,
        'buckets: the locks of older generations are gone';
    is recoveries($server), 0, 'buckets: none has died with a lock';
    no_crash($server->log);
}

# All children woken for each connection, and all but one in vain.
{
    my $server = accept_server();

    holder($server);
    my $before = switches($server);
    is_deeply { requests($server, REQUESTS) }, {}, 'idle children: all served';
    my $each = (switches($server) - $before) / REQUESTS;
    cmp_ok $each, '<=', mpm() eq 'prefork' ? 4 : 8,
        'few of them wake up for a connection';
}

# Those that failed or took more than a second, or so many, by number.
sub requests {
    my ($server, $count, $seconds) = @_;
    my @ports = $server->ports;
    my %slow;

    for my $n (1 .. $count) {
        my $start = Time::HiRes::time();
        my $ok    = eval { fetch('/index.html', $ports[ $n % @ports ]) };
        my $took  = Time::HiRes::time() - $start;

        $slow{$n} = $ok ? $took : $@ if !$ok || $took > ($seconds // 1);
    }
    return %slow;
}

# As the parent has them open: one a bucket.
sub files_of_locks {
    my ($server) = @_;
    return scalar grep { (readlink // '') =~ /accept_lock/ }
        glob '/proc/' . $server->pid . '/fd/*';
}

sub switches {
    my ($server) = @_;
    my $sum = 0;

    for my $status (map { glob "/proc/$_/task/*/status" } $server->child_pids) {
        my ($n) = PrivateHttpd::slurp($status)
            =~ /^voluntary_ctxt_switches:\s*(\d+)/m;
        $sum += $n // 0;
    }
    return $sum;
}
