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


# TERM may reach a thread that somebody has started in a child: it is not lost
# there, whether the main thread has it open or shut.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 3 + 1, need_child_signals();

my $log = error_log();

for my $shut (0, 1) {
    my $server = server(conf => 'SigDeferHoldTime 1');
    my $answer = probe('linked', "thread?shut=$shut", $server->port);
    my $who    = 'main thread ' . ($shut ? 'shut' : 'open');

    is $answer->{created}, 1, "$who: there is a plain thread";
    kill TERM => $answer->{pid};
    ok wait_until(3, sub { !is_running($answer->{pid}) }),
        "$who: the child leaves";
    no_crash($server->log);
}

no_crash($log);
