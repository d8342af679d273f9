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


# Any number of TERM and HUP during a hold count as one: they neither shorten
# nor lengthen it, and the child leaves once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(sleep);

plan tests => 4, need_child_signals();

my $server = server();
my $client = Client->new($server->port)->get('/probe-linked/slow?chunks=20');
my ($pid)  = $client->line_like(qr/^pid: /, 5) =~ /(\d+)/;

$client->line_like(qr/^chunk: 3/, 5);
for my $signal (('TERM') x 5, 'HUP') {
    kill $signal => $pid;
    sleep 0.1;
}
like $client->rest(5), qr/\nEND\n\z/, 'the client gets all of it';
ok wait_until(1, sub { !is_running($pid) }), 'then the child leaves';
is scalar(() = $server->log->lines(qr/child $pid leaves/)), 1, 'once';
no_crash($server->log);
