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

for my $listeners (1, 2) {
    my $who    = "$listeners listener(s)";
    my $server = server(workers => 8, listeners => $listeners,
        conf => "MinSpareServers 8\nSigDeferHoldTime 1");
    my $limit = $listeners == 1 ? 1 : 2.5;
    my ($ended, $slow) = (0, 0);

    # httpd makes new ones at a pace of its own
    for (my $end = time + 40; $ended < 20 && time < $end;) {
        wait_until(10, sub { $server->child_pids == 8 });
        for my $pid ($server->child_pids) {
            kill TERM => $pid;
            $slow++ if !wait_until($limit, sub { !is_running($pid) });
            $ended++;
        }
    }
    cmp_ok $ended, '>=', 20, "$who: TERM was sent to many idle children";
    is $slow, 0, "$who: each of them left within $limit s";
    no_crash($server->log);
}
