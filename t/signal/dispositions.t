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


# What a child ignores stays ignored, and when the module has gone from it the
# actions are what they were before, or would have been without the module.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 9, need_sigdefer();

my %actions;

for my $sigdefer (0, 1) {
    my $who    = $sigdefer ? 'with the module' : 'without';
    my $server = server(
        sigdefer => $sigdefer,
        probe    => 'soft',
        conf     => 'ProbeOptions report-actions',
    );
    my $answer = probe('soft', 'actions', $server->port);
    my $pid    = probe('soft', 'state',   $server->port)->{pid};

    kill INT => $pid;
    ok !wait_until(0.3, sub { !is_running($pid) }),
        "$who: INT does not end a child";
    $actions{ignored}[$sigdefer] = $answer->{SigIgn};
    $server->restart('USR1');
    for my $when ('before init', 'after teardown') {
        $actions{$when}[$sigdefer] = reported($server, $pid, $when);
        is scalar keys %{ $actions{$when}[$sigdefer] }, 8,
            "$who: eight actions are read $when";
    }
    no_crash($server->log) if $sigdefer;
}

is $actions{ignored}[1], $actions{ignored}[0], 'the same signals are ignored';

my ($stock, $after) = @{ $actions{'after teardown'} };
my $before = $actions{'before init'}[1];

is_deeply [
    grep { $after->{$_} ne $before->{$_} && $after->{$_} ne $stock->{$_} }
        sort keys %$after
], [], 'no action has been changed for good';

# By name of the signal.
sub reported {
    my ($server, $pid, $when) = @_;
    return {
        map { /child $pid: $when: (\w+): (.*)$/ ? ($1 => $2) : () }
            split /\n/, $server->error_log
    };
}
