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


# A child that serves nothing leaves at once, whether it waits for a connection
# or, with two listeners, for the accept lock.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 4, need_child_signals();

use constant {
    CHILDREN => 32,
    WANTED   => 300,
};

for my $listeners (1, 2) {
    my $who    = "$listeners listener(s)";
    my $server = server(workers => CHILDREN, listeners => $listeners,
        conf => 'MinSpareServers ' . CHILDREN . "\nSigDeferHoldTime 5");
    my ($ended, @slow) = (0);

    # httpd makes new ones at a pace of its own
    for (my $end = time + 60; $ended < WANTED && time < $end;) {
        my @idle;

        wait_until(10, sub { (@idle = $server->child_pids) == CHILDREN });
        kill TERM => @idle;
        wait_until(1, sub { !grep { is_running($_) } @idle });
        push @slow, grep { is_running($_) } @idle;
        $ended += @idle;
    }
    cmp_ok $ended, '>=', WANTED, "$who: TERM was sent to many idle children";
    is_deeply \@slow, [], "$who: each of them left within a second";
    is_deeply [$server->log->lines(qr/accept lock recovered/)], [],
        "$who: none of them with the lock";
    no_crash($server->log);
}
