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


# The hold beside httpd's own limits: MaxConnectionsPerChild,
# GracefulShutdownTimeout, ListenCoresBucketsRatio and -X.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(sleep time);

plan tests => 4 + 4 + 2 * 3 + 2 + 4, need_sigdefer();

{
    my $server   = server(conf => 'MaxConnectionsPerChild 1', workers => 8);
    my $answered = 0;

    for my $n (1 .. 30) {
        $server->send_signal('HUP') if $n % 10 == 5;
        $answered += !!eval { fetch('/index.html', $server->port) };
    }
    SKIP: {
        # the MPM's own limit: see docs/admin.md
        skip "$answered of 30: a listener that ends may drop what it accepts", 1
            if mpm() ne 'prefork' && $answered >= 28;
        is $answered, 30, 'one connection a child: all are answered';
    }
    my ($client) = $server->begin('/probe-linked/slow?chunks=10');
    $server->send_signal('TERM');
    like $client->rest(5), qr/\nEND\n\z/, 'one connection a child: to its end';

    ok $server->nobody_left(5), 'one connection a child: then it stops';
    no_crash($server->log);
}
{
    my $server = server(conf => "GracefulShutdownTimeout 2\nSigDeferHoldTime 30");
    my ($short, $endless) = $server->begin('/probe-linked/slow?chunks=10',
        '/probe-linked/endless');
    my $begun = time;

    $server->send_signal('WINCH');
    like $short->rest(5), qr/\nEND\n\z/,
        'graceful stop: what ends in time is finished';
    ok $server->nobody_left(10), 'graceful stop: nobody is left';
    my $took = time - $begun;
    ok $took > 1.5 && $took < 4, "graceful stop: after its own time-out ($took)";
    no_crash($server->log);
}
for my $signal (qw(HUP TERM)) {
    my $who     = "several buckets, $signal";
    # prefork makes a child for each bucket only if it wants that many
    my $spare   = mpm() eq 'prefork' ? 'MinSpareServers 8' : '';
    my $server  = server(workers => 8,
        conf => "ListenCoresBucketsRatio 1\n$spare");
    my @clients = $server->begin(('/probe-linked/slow?chunks=15') x 4);
    my $stuck;

    $server->send_signal($signal);
    is scalar(grep { $_->rest(5) =~ /\nEND\n\z/ } @clients), 4,
        "$who: what was served is finished";
    if ($signal eq 'HUP') {
        is answered($server, 20), 20, "$who: new children serve";
        ($stuck) = $server->begin('/probe-linked/endless');
        $server->send_signal('HUP');
        is answered($server, 20), 20,
            "$who: also while an old child has the sockets";
        $server->send_signal('TERM');
    }
    ok $server->nobody_left(8), "$who: nobody is left after a stop";
    no_crash($server->log);
}
{
    my $server = server(start => 0, wrapper => [qw(sh -c), 'exec "$@" -X', 'sh']);

    $server->spawn;
    ok wait_until(10, sub { eval { fetch('/index.html', $server->port) } }),
        'debug mode: it serves';
    is probe('linked', 'state', $server->port)->{pid}, $server->pid,
        'debug mode: in one process';
    $server->send_signal('TERM');
    ok $server->nobody_left(10), 'debug mode: TERM ends it';
    no_crash($server->log);
}

# How many of so many requests are.
sub answered {
    my ($server, $count) = @_;
    return scalar grep { eval { fetch('/index.html', $server->port) } }
        1 .. $count;
}
