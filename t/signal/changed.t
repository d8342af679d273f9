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


# The action is read when a signal is handled, not when it arrives.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 8 + 2 * 4 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $before = probe($variant, 'stats')->{ignored};
    my $answer = probe($variant, 'changed?to=ignore');

    is $answer->{calls_inside}, 0, "$variant: a signal waits";
    is $answer->{calls_after},  0, "$variant: ignored by then, it is dropped";
    is probe($variant, 'stats')->{ignored}, $before + 1,
        "$variant: and counted";

    $answer = probe($variant, 'changed?to=newer');
    is $answer->{calls_inside}, 0, "$variant: another one waits";
    is $answer->{calls_after},  1, "$variant: one handler is called";
    is $answer->{value}, 107,
        "$variant: the newer one, with the value that was sent";
    is $answer->{code_queue},  1, "$variant: and its code";
    is $answer->{sender_self}, 1, "$variant: and its sender";
}

for my $variant (variants()) {
    my $server = server(probe => $variant);
    my $body = Client->new($server->port)
        ->get("/probe-$variant/changed?to=default")->rest(5);

    like $body, qr/^calls_inside: 0$/m, "$variant: a signal waits";
    unlike $body, qr/^calls_after/m, "$variant: its default ends the child";
    ok $server->log->wait_for(qr/exit signal User defined signal 2/, 5),
        "$variant: and httpd sees which signal it was";
    ok eval { fetch('/index.html', $server->port) },
        "$variant: the server goes on";
}

no_crash($log);
