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


# A handler that somebody registers behind the back of mod_sigdefer is found
# within eight connections, adopted, and reported once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 8 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $server = server(probe => $variant, workers => 1);
    my $port   = $server->port;

    # what the MPM itself has changed since the start of the child
    connect_eight_times($variant, $port);
    my $before = probe($variant, 'stats', $port)->{adopted};
    my $pid    = probe($variant, 'foreign', $port)->{pid};
    connect_eight_times($variant, $port);
    my $line = ($server->log->lines(qr/S010: SIGUSR2: /))[0] // '';
    like $line, qr/handler of mod_probe_$variant\.so found in place of ours/,
        "$variant: the handler is found, and its owner named";
    like $line, qr/\[pid $pid\D.*, adopted$/, "$variant: by this child";

    my $answer = probe($variant, 'raise?section=1', $port);
    is $answer->{calls_inside}, 0, "$variant: it is not called in a section";
    is $answer->{calls_after},  1, "$variant: but once afterwards";
    is probe($variant, 'raise?section=0', $port)->{calls_inside}, 1,
        "$variant: and at once outside";
    is probe($variant, 'stats', $port)->{adopted}, $before + 1,
        "$variant: counted";

    probe($variant, 'foreign', $port);
    connect_eight_times($variant, $port);
    is probe($variant, 'raise?section=1', $port)->{calls_inside}, 0,
        "$variant: done again, it is found again";
    is scalar(() = $server->log->lines(qr/S010: SIGUSR2: /)), 1,
        "$variant: but not reported again";
}

no_crash($log);

sub connect_eight_times {
    my ($variant, $port) = @_;
    probe($variant, 'state', $port) for 1 .. 8;
    return;
}
