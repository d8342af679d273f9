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


# The child of a fork inside a section is in that section, too, with nothing
# queued.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 8 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'fork');

    is $answer->{child_status}, 0, "$variant: the forked process ends well";
    is $answer->{child_depth},  1, "$variant: it is in the section";
    is $answer->{child_pending}, 0,
        "$variant: what its parent had queued is not queued in it";
    is $answer->{child_calls_inside}, 0, "$variant: a signal waits in it";
    is $answer->{child_calls_after},  1, "$variant: and is handled once";
    is $answer->{child_depth_after},  0, "$variant: it can leave";
    is $answer->{calls_inside}, 0, "$variant: its parent's signal waits";
    is $answer->{calls_after},  1, "$variant: and is handled once";
}

no_crash($log);
