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


# A jump out of a section, or out of a handler that runs at its end, leaves
# nothing wedged behind.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 5 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'jump');

    is $answer->{depth_after_jump}, 0, "$variant: the depth is the mark's";
    is $answer->{calls_after_jump}, 1, "$variant: what waited is handled";
    is $answer->{calls_handler_jumped}, 2, "$variant: a handler jumps away";
    is $answer->{calls_inside_again}, 2,
        "$variant: afterwards a signal waits in a section";
    is $answer->{calls_again}, 3, "$variant: and is handled at its end";
}

no_crash($log);
