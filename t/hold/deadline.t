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


# A request that takes longer than SigDeferHoldTime is ended at the deadline,
# and the log tells which it was: method, path without query, age.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @signals = (
    mpm() eq 'prefork' ? ([ child => 'TERM' ]) : (),
    [ server => 'HUP' ],
    [ server => 'TERM' ],
);

plan tests => 7 * @signals, need_sigdefer();

for my $row (@signals) {
    my ($to, $signal) = @$row;
    my $who    = "$signal to the $to";
    my $server = server(conf => 'SigDeferHoldTime 1');
    my $client = Client->new($server->port)
        ->get('/probe-linked/endless?secret=1');
    my ($pid) = $client->line_like(qr/^pid: /, 5) =~ /(\d+)/;

    kill $signal => $to eq 'child' ? $pid : $server->pid;
    ok !wait_until(0.7, sub { !is_running($pid) }), "$who: it has its time";
    ok wait_until(2, sub { !is_running($pid) }), "$who: and is ended then";
    ok $client->gone(1), "$who: so is the connection";
    my $line = $server->log->wait_for(qr/S022: hold time/, 12) // '';
    like $line, qr{hold time of 1 s is over, child $pid ends},
        "$who: the log tells";
    like $line, qr{ends "GET /probe-linked/endless" after [12] s$},
        "$who: with method, path and age";
    unlike $server->error_log, qr/secret/, "$who: but without the query";
    no_crash($server->log);
}
