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


# The hold is counted: children that are left to finish, for how long, what is
# cut at the deadline, and the signals that children note.  Without the hold
# there are statistics all the same.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';

my $is_prefork = mpm() eq 'prefork';

plan tests => 5 + 2 + 3 + 2, need_sigdefer();

{
    my $server = status_server(conf => "SigDeferHoldTime 2\n");
    my $port   = $server->port;
    my ($slow) = $server->begin('/probe-linked/slow?chunks=10');

    $server->send_signal('HUP');
    like $slow->rest(10), qr/\nEND\n\z/, 'a request over a restart';
    ok left($server, $slow->pid), 'then its child goes';
    my $figures = status($port)->{figures};

    # the children of the others do not say whether they serve
    cmp_ok $figures->{children_held}, $is_prefork ? '==' : '>=', 1,
        'it is counted';
    cmp_ok $figures->{hold_longest_seconds}, '>', 0.3, 'and how long it took';
    is $figures->{requests_cut}, 0, 'nothing has been cut';

    my ($endless) = $server->begin('/probe-linked/slow?chunks=100');

    $server->send_signal('HUP');
    ok left($server, $endless->pid), 'a request is cut at the deadline';
    ok wait_until(15, sub { status($port)->{figures}{requests_cut} == 1 }),
        'which is counted';
}
SKIP: {
    skip 'only prefork notes signals', 3 if !$is_prefork;
    my $server = status_server();
    my ($pid)  = $server->child_pids;

    kill TERM => $pid;
    ok left($server, $pid), 'TERM ends a child';
    is_deeply signal_row(status($server->port), 'TERM'), [ 1, 0, 1, 0 ],
        'it has been received and held';
    no_crash($server->log);
}
{
    my $server = status_server(conf => "SigDeferHold Off\n");
    my $port   = $server->port;

    probe('linked', 'order', $port) for 1 .. 4;
    $server->restart('HUP');
    wait_for_children($server);
    is_deeply signal_row(status($port), 'RTMIN+1'), [ 12, 12, 0, 12 ],
        'without the hold: signals, over a restart';
    is status($port)->{figures}{restarts}, 1, 'and the restart';
}

sub left {
    my ($server, $pid) = @_;
    return wait_until(15, sub { !grep { $_ == $pid } $server->child_pids });
}
