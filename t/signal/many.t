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

# Where more than eight signals are managed besides TERM and HUP, each of them
# is looked at within as many connections.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use constant SIGNALS => 12;

plan tests => 2 * 3 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $server = server(
        probe   => $variant,
        workers => 1,
        conf    => join(' ', 'SigDeferSignals',
            map { "RTMIN+$_" } 0 .. SIGNALS - 1),
    );

    is probe($variant, 'foreign-many', $server->port)->{signals}, SIGNALS,
        "$variant: somebody else handles " . SIGNALS . ' signals';
    for (1 .. SIGNALS) {
        probe($variant, 'state', $server->port);
    }
    my @lines = $server->log->lines(qr/S010: SIGRTMIN\+\d+: handler/);
    my %signals = map { /(SIGRTMIN\+\d+)/ ? ($1 => 1) : () } @lines;
    is keys %signals, SIGNALS, "$variant: all are found";
    is @lines, SIGNALS, "$variant: and reported once";
}

no_crash($log);
