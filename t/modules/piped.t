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


# A piped log by rotatelogs, over restarts under requests: all lines of requests
# that end with their generation are there.  httpd ends the logger at each
# restart, so the line of a request that ends later can be missing; a log in a
# file has it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my ($rotatelogs) = grep { -x } qw(/usr/bin/rotatelogs /usr/sbin/rotatelogs
    /usr/local/apache2/bin/rotatelogs);

plan tests => 4,
    need_sigdefer({ 'rotatelogs is not installed' => $rotatelogs // '' });

my $server = server(conf => <<"END");
CustomLog logs/file "%U"
CustomLog "|$rotatelogs logs/piped 86400" "%U"
END
my $count = 0;

for my $round (1 .. 5) {
    for (1 .. 10) {
        $count += !!eval { fetch('/index.html', $server->port) };
    }
    my ($client) = $server->begin('/probe-linked/slow?chunks=5');

    $server->restart('HUP');
    $client->rest(5);
}
$server->stop;
is $count, 50, 'all requests are answered';
is lines('file', 'index'), 50, 'the file has all lines of short requests';
cmp_ok lines('piped', 'index'), '>=', 50, 'and so has the piped log';
is lines('file', 'slow'), 5, 'the file has those of requests over a restart';
diag lines('piped', 'slow'), ' of 5 such lines are in the piped log'
    if lines('piped', 'slow') < 5;

sub lines {
    my ($name, $what) = @_;
    my $text = join '', map { PrivateHttpd::slurp($_) }
        glob $server->root . "/logs/$name*";

    return scalar(() = $text =~ /$what/g);
}
