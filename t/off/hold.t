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


# With SigDefer Off, or SigDeferHold Off, a child that is told to go goes at
# once, as without the module.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my %off = (
    'SigDefer Off'     => '1 OFF',
    'SigDeferHold Off' => '2 ON',
);

plan tests => 4 * keys %off, need_child_signals();

for my $conf (sort keys %off) {
    my $server = server(conf => $conf);
    my $client = Client->new($server->port)
        ->get('/probe-linked/slow?chunks=20');
    my ($pid) = $client->line_like(qr/^pid: /, 5) =~ /(\d+)/;

    $client->line_like(qr/^chunk: 2/, 5);
    kill TERM => $pid;
    unlike $client->rest(5), qr/END/, "$conf: what it serves is cut";
    ok wait_until(1, sub { !is_running($pid) }), "$conf: it is gone";
    is probe('linked', 'state', $server->port)->{state}, $off{$conf},
        "$conf: sections do what they should";
    no_crash($server->log);
}
