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


# Nothing outlives the server, whatever its end: no name in /dev/shm, no segment
# of System V, no file, and no process that waits for a lock.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use AcceptTest;
use Apache::Test '-withtestmore';

my @mechanisms = qw(futex pthread fcntl);

plan tests => 7 * @mechanisms, need_accept_lock();

# With this Mutex httpd's own would be a semaphore of System V, which a login
# manager removes from outside; the server then ends.
for my $mechanism (@mechanisms) {
    my $server = accept_server(
        conf => "Mutex sysvsem mpm-accept\nSigDeferAcceptLock $mechanism\n");

    is lock_name($server), $mechanism, "$mechanism: the MPM has it";
    is_deeply [ mapped($server) ], [], "$mechanism: no memory with a name";
    is_deeply [ files($server) ], [], "$mechanism: no file";

    # the parent first, so that nobody cleans up
    my @children = $server->child_pids;
    kill KILL => $server->pid;
    kill KILL => @children;
    ok $server->nobody_left(5), "$mechanism: killed, nobody is left";
    is_deeply [ files($server) ], [], "$mechanism: nor a file";
    $server->launch;
    answers_on_all($server, 1, "$mechanism: it starts again");

    # children without a parent go, wherever they wait
    kill KILL => $server->pid;
    ok $server->nobody_left(8), "$mechanism: the parent killed, all go";
}

# In the parent and its children.
sub mapped {
    my ($server) = @_;
    return grep { m{ /(?:SYSV|dev/shm/)} }
        map { split /\n/, PrivateHttpd::slurp("/proc/$_/maps") }
        $server->pid, $server->child_pids;
}

sub files {
    my ($server) = @_;
    my $root = $server->root;
    return grep { !m{/(?:error_log|startup_log|httpd\.pid|cgisock.*)$} }
        glob "$root/logs/*";
}
