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


# Immediate reaping interrupts a wait, as any handler does, and takes the
# status away; the other modes do neither.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my %expected = (
    Off    => [ 'timeout', 'status' ],
    Idle   => [ 'timeout', 'status' ],
    Signal => [ 'EINTR',   'gone' ],
);

plan tests => 3 * keys %expected, need_sigdefer();

for my $mode (sort keys %expected) {
    my $server = server(conf => "SigDeferReapChildren $mode");
    my $answer = probe('linked', 'interrupted-wait', $server->port);
    my ($poll, $waitpid) = @{ $expected{$mode} };

    is $answer->{poll},    $poll,    "$mode: a wait ends by $poll";
    is $answer->{waitpid}, $waitpid, "$mode: the child's status: $waitpid";
    no_crash($server->log);
}
