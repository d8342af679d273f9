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


# Signals that come while a child is being torn down, with the module still in
# place or gone: the child leaves once, by ordinary code, and does not crash.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @pauses = qw(pause-before-teardown pause-after-teardown);

plan tests => 5 * @pauses, need_sigdefer();

for my $pause (@pauses) {
    my $server = server(workers => 1, conf => "ProbeOptions $pause");
    my $begins = qr/ (\d+): $pause begins/;

    $server->send_signal('USR1');
    my ($pid) = ($server->log->wait_for($begins, 5) // '') =~ $begins;
    ok $pid, "$pause: a child of the old generation leaves";
    kill $_ => $pid for qw(TERM USR1 TERM);
    ok $server->log->wait_for(qr/ $pid: $pause ends/, 3),
        "$pause: signals do not cut it short";
    ok wait_until(3, sub { !is_running($pid) }), "$pause: the child is gone";
    is scalar(() = $server->log->lines(qr/child $pid leaves/)), 1,
        "$pause: it left once";
    no_crash($server->log);
}
