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


# Counters are exact: what is done a known number of times is counted as often,
# and is still there when the children that counted it have been killed or have
# left at restarts of either kind.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';

plan tests => 10 + 3 * 5 + 3, need_sigdefer();

my $server = status_server();
my $port   = $server->port;
my %gone;

# a probe's command raises: USR2 once, RTMIN twice, RTMIN+1 three times
probe('linked', 'order', $port) for 1 .. 5;

# USR2 inside of a section and outside
probe('linked', 'nesting', $port) for 1 .. 3;
probe('linked', 'unpaired', $port);
fetch('/probe-linked/open?depth=2', $port);

my $status = status($port);
my %rows   = (
    'USR2'    => [ 5 + 6 + 1, 5 + 3 + 1, 0, 5 + 6 + 1 ],
    'RTMIN+0' => [ 10,        10,        0, 10 ],
    'RTMIN+1' => [ 15,        15,        0, 15 ],
);
is_deeply signal_row($status, $_), $rows{$_}, "$_: exact" for sort keys %rows;
is $status->{figures}{unpaired_leaves}, 2, 'two leaves without an enter';
is $status->{figures}{open_sections},   2, 'two sections left open';
is $status->{figures}{queue_highest},   6, 'six signals in the queue';
is $status->{figures}{restarts},        0, 'no restart';
is $status->{figures}{children_ended},  0, 'no child has ended';
cmp_ok $status->{figures}{deferral_seconds}, '>=',
    $status->{figures}{deferral_longest_seconds},
    'all deferrals take as long as the longest, at least';
cmp_ok $status->{figures}{deferral_longest_seconds}, '>', 0,
    'which takes some time';

# KILL leaves a child no time to tell anybody
my ($victim) = map { $_->{pid} } grep { $_->{deferred} } @{ $status->{children} };
kill KILL => $victim;
$gone{$victim} = 1;
wait_until(10, sub { !grep { $_ == $victim } $server->child_pids });
check('a child is killed', 0);
for my $restart (1, 2) {
    my $signal = $restart == 1 ? 'HUP' : 'USR1';

    $gone{$_} = 1 for $server->child_pids;
    $server->restart($signal);
    check($signal, $restart);
}

# what the dead have left is added to
probe('linked', 'order', $port);
is_deeply signal_row(status($port), 'RTMIN+1'), [ 18, 18, 0, 18 ],
    'then it goes on';
# httpd asks for one each ten seconds, or sooner if children end
ok wait_until(25, sub { @{ status($port)->{samples} } > 1 }),
    'samples have been taken';
no_crash($server->log);

sub check {
    my ($what, $restarts) = @_;

    wait_for_children($server);
    my $now = status($port);

    is_deeply signal_row($now, $_), $rows{$_}, "$what: $_ as before"
        for sort keys %rows;
    is $now->{figures}{restarts}, $restarts, "$what: restarts";
    is $now->{figures}{children_ended}, scalar keys %gone,
        "$what: children that have ended";
    return;
}
