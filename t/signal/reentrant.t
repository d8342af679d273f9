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


# A handler that raises its own signal, and has a section, is called again in
# a loop, not from inside of itself.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 3 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'reentrant');

    is $answer->{calls},  20000, "$variant: nothing is lost or invented";
    is $answer->{nested}, 1,     "$variant: one call at a time";
    cmp_ok $answer->{stack_span}, '<', 4096, "$variant: the stack stays low";
}

no_crash($log);
