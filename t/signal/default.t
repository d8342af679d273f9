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


# A signal without a handler, and a handler that crashes: the child ends as it
# would on a stock httpd, with the same line in the log, but not in a section.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 5 + 2 * 3, need_sigdefer();

for my $section (0, 1) {
    my $server = server();
    my $answer = Client->new($server->port)
        ->get("/probe-linked/raise?section=$section")->rest(5);
    my $where = $section ? 'in a section' : 'outside';

    is $answer =~ /^calls_inside: 0$/m || 0, $section,
        "$where: the default action " . ($section ? 'waits' : 'is at once');
    unlike $answer, qr/^calls_after/m, "$where: it ends the child";
    ok $server->log->wait_for(qr/exit signal User defined signal 2/, 5),
        "$where: httpd sees which signal it was";
    is scalar(() = $server->log->lines(qr/exit signal/)), 1,
        "$where: one child has ended";
    ok eval { fetch('/index.html', $server->port) },
        "$where: the server goes on";
}

for my $variant (variants()) {
    my $server = server(probe => $variant);
    my $answer = Client->new($server->port)->get("/probe-$variant/crash")
        ->rest(5);

    like $answer, qr/^pid: /m, "$variant: a bad handler waits";
    ok $server->log->wait_for(qr/exit signal Segmentation fault/, 5),
        "$variant: httpd sees it crash";
    ok eval { fetch('/index.html', $server->port) },
        "$variant: the server goes on";
}
