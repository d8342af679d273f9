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


# A timer that ticks again and again during a long section is handled once at
# its end, and the length of the deferral is told.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 4 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $before = probe($variant, 'stats');
    my $answer = probe($variant, 'late-timer?ms=1050');
    my $after  = probe($variant, 'stats');

    is $answer->{calls_inside}, 0, "$variant: no tick is handled inside";
    is $answer->{calls_after},  1, "$variant: one call for all of them";
    cmp_ok $after->{merged}, '>', $before->{merged},
        "$variant: the others are counted as merged";
    cmp_ok $answer->{longest_ms}, '>=', 900,
        "$variant: the longest deferral is that of the first tick";
}

no_crash($log);
