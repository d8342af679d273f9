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


# A child that serves nothing leaves at once.  With two listeners it may wait
# for the accept mutex, though, where nothing wakes it: there it leaves when it
# gets the mutex, or when its hold time is over.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 3, need_child_signals();

# With more listeners httpd's children wait for the accept mutex, too, and
# leave when they have got it: one at a time.
for my $row ([ 1, 32, 300, 32, 1 ], [ 2, 8, 20, 1, 2.5 ]) {
    my ($listeners, $workers, $wanted, $at_once, $limit) = @$row;
    my $who    = "$listeners listener(s)";
    my $server = server(workers => $workers, listeners => $listeners,
        conf => "MinSpareServers $workers\nSigDeferHoldTime 1");
    my ($ended, @slow) = (0);

    # httpd makes new ones at a pace of its own
    for (my $end = time + 60; $ended < $wanted && time < $end;) {
        my @idle;

        wait_until(10, sub { (@idle = $server->child_pids) == $workers });
        while (my @pids = splice @idle, 0, $at_once) {
            kill TERM => @pids;
            wait_until($limit, sub { !grep { is_running($_) } @pids });
            push @slow, grep { is_running($_) } @pids;
            $ended += @pids;
        }
    }
    cmp_ok $ended, '>=', $wanted, "$who: TERM was sent to many idle children";
    is_deeply \@slow, [], "$who: each of them left within $limit s";
    no_crash($server->log);
}
