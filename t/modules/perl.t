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


# What a page of mod_perl does with signals: an alarm with a handler ends a
# wait, a TERM handler that stays is called outside of the hold only.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 9, need_child_signals('mod_perl.c');

my $server = server(workers => 1, modules => ['perl'], listeners => 1);
my $pid    = probe('linked', 'state', $server->port)->{pid};

for my $round (1 .. 2) {
    is fetch('/alarm.pl?caught', $server->port), "ended by: alarm\nEND\n",
        "round $round: an alarm ends a wait";
}
is probe('linked', 'state', $server->port)->{pid}, $pid, 'in the same child';

# slow.pl sets a TERM handler that dies, and that stays
like fetch('/slow.pl?chunks=1', $server->port), qr/^END$/m, 'a TERM handler';
my $client = Client->new($server->port)->get('/slow.pl?chunks=10');

$client->line_like(qr/^chunk: 2/, 5);
kill TERM => $pid;
like $client->rest(5), qr/^chunk: 10\nEND\n\z/m,
    'TERM: the response is finished';
ok wait_until(2, sub { !is_running($pid) }), 'TERM: then the child leaves';
no_crash($server->log);

# An alarm that goes off after its request, when nobody has a handler for it,
# ends the child as it would without the module; others are not concerned.
my $late = server(workers => 4, modules => ['perl'], listeners => 1);
my $slow = Client->new($late->port)->get('/probe-linked/slow?chunks=20');

$slow->line_like(qr/^chunk: 1/, 5);
like fetch('/alarm.pl?late', $late->port), qr/^END$/m, 'a late alarm';
like $slow->rest(5), qr/^chunk: 20\nEND\n\z/m, 'hits nobody else';
