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


# Restarts while all slots are taken by older generations: the new one serves
# as soon as there is room, and nothing is lost.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 5, need_sigdefer();

my $workers = 4;
my $server  = server(workers => $workers,
    conf => 'SigDeferHoldTime 3' . (mpm() eq 'prefork'
        ? ''
        : "\nThreadsPerChild 1\nStartServers $workers\nServerLimit $workers\n"
            . 'ThreadLimit 1'));
my @clients = $server->begin(('/probe-linked/slow?chunks=15') x $workers);
my @waiting;

for (1 .. 3) {
    $server->send_signal('HUP');
    push @waiting, Client->new($server->port)->get('/probe-linked/state');
    wait_until(0.2, sub { 0 });
}
is scalar(grep { $_->rest(10) =~ /\nEND\n\z/ } @clients), $workers,
    'what was served is finished';
is scalar(grep { $_->rest(10) =~ /^pid: \d+\n\z/m } @waiting), 3,
    'who waited is served';
my @pids = map { $_->pid } @clients;
ok wait_until(5, sub { !grep { is_running($_) } @pids }),
    'the old children are gone';
ok eval { $server->stop; 1 }, 'the server stops, and nobody is left';
no_crash($server->log);
