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


# A request that never ends and whose thread no signal reaches: in prefork the
# parent kills the child in the end; elsewhere another thread hears the
# deadline.  Nothing else suffers.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 6, need_sigdefer();

my @runs = map { begin($_) } qw(TERM HUP);

for my $run (@runs) {
    my ($signal, $server, $stuck, $other) = @$run;
    my $pid = $stuck->pid;

    like $other->rest(10), qr/\nEND\n\z/, "$signal: another one is served";
    if ($signal eq 'HUP') {
        ok eval { fetch('/index.html', $server->port) },
            "$signal: new children serve meanwhile";
    }
    else {
        ok $server->alive, "$signal: the parent waits";
    }
    ok wait_until(10, sub { !is_running($pid) }), "$signal: it is ended";
    ok $stuck->gone(1), "$signal: and so is the connection";
    ok eval { $server->stop; 1 }, "$signal: nobody is left";
    my @killed = $server->log->lines(qr/child $pid did not end at its deadline/);
    is scalar @killed, mpm() eq 'prefork' ? 1 : 0,
        "$signal: the log tells if it had to be killed";
}

sub begin {
    my ($signal) = @_;
    my $server   = server(conf => 'SigDeferHoldTime 3');
    my @clients  = $server->begin('/probe-linked/masked',
        '/probe-linked/slow?chunks=15');

    $server->send_signal($signal);
    return [$signal, $server, @clients];
}
