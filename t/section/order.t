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


# What came in a section is handled in the order of its arrival, each signal
# with the siginfo that it came with.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 8 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'order');

    is $answer->{calls_inside}, 0, "$variant: six signals wait";
    is $answer->{calls_after},  6, "$variant: all are handled";
    for my $n (1 .. 6) {
        is $answer->{"call $n"},
            "signal right value $n code right sender right",
            "$variant: call $n is for the signal that came as number $n";
    }
}

no_crash($log);
