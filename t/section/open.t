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


# Sections that a request leaves open are closed at its end, and reported with
# their number and the request.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 7 + 1, need_sigdefer();

my $crashes = error_log();

for my $variant (variants()) {
    my $log    = error_log();
    my $before = probe($variant, 'stats')->{open_sections};

    is probe($variant, 'open?depth=3')->{depth}, 3,
        "$variant: three sections are open";
    my $line = $log->wait_for(qr/left open/, 3) // '';
    like $line, qr/S011: 3 critical section\(s\) left open at the end/,
        "$variant: reported with their number";
    like $line, qr{ of "GET /probe-$variant/open"; closed},
        "$variant: and the request, without its query";
    is probe($variant, 'state')->{depth}, 0,
        "$variant: the next request starts outside";
    my $answer = probe($variant, 'nesting');
    is $answer->{calls_outside}, 2,
        "$variant: signals are handled there at once";
    is $answer->{calls_inner}, 0, "$variant: and wait in sections";
    is probe($variant, 'stats')->{open_sections}, $before + 3,
        "$variant: the open sections are counted";
}

no_crash($crashes);
