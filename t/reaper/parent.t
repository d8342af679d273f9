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


# Reaping is done in the children: the parent goes on counting its own dead.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 3, need_sigdefer();

for my $mode (qw(Signal Idle)) {
    my $server = server(
        workers => 8,
        conf    => "MaxConnectionsPerChild 5\nSigDeferReapChildren $mode",
    );
    my $answered = grep { eval { fetch('/index.html', $server->port) } }
        1 .. 40;

    is $answered, 40, "$mode: all requests are answered";
    ok wait_until(3, sub { !grep { $_ eq 'Z' } values %{
        { children_of($server->pid) } } }),
        "$mode: the parent has no zombies";
    no_crash($server->log);
}
