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


# A process that a child has forked is none of httpd's: it holds nothing, TERM
# ends it, and the server does not suffer.  (On a stock httpd it runs the
# child's exit code, and with one child takes the accept mutex along.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 4, need_child_signals();

my $server = server(workers => 1);
my $start  = time;

is probe('linked', 'fork-term', $server->port)->{ended}, 1,
    'TERM ends a forked process';
cmp_ok time - $start, '<', 5, 'at once';
is scalar(grep { eval { fetch('/index.html', $server->port) } } 1 .. 20), 20,
    'the server goes on';
no_crash($server->log);
