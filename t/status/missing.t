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


# Without shared memory the module runs, has no statistics, and says so once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';
use OpenMetrics ();

plan tests => 7, need_sigdefer();

my $preload = Apache::Test::vars('src_dir') . '/build/t/unlucky.so';
my $server  = server(
    wrapper => [ 'env', 'UNLUCKY=memory', "LD_PRELOAD=$preload" ],
    conf => mpm() eq 'prefork' ? "ServerLimit 16\n" : "ServerLimit 16\n"
        . "ThreadLimit 4\nThreadsPerChild 4\nMaxRequestWorkers 16\n",
);
my $port = $server->port;

is scalar(() = $server->error_log =~ /there are no statistics/g), 1,
    'it is said once';
is status_lines($port)->{SigDeferStatistics}, 'Off', 'and on the page';
is_deeply status($port)->{children}, [], 'nothing is told';
like answer($port, '')->{content}, qr/There are no statistics/,
    'people are told why';
ok eval { OpenMetrics::samples(metric_text($port)) }, 'metrics are well-formed'
    or diag $@;
is probe('linked', 'nesting', $port)->{calls_inner}, 0, 'signals are deferred';
no_crash($server->log);
