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


# A timer that goes off in a section is not handled by code that has returned
# meanwhile and put the former handler back.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 3 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'gone-timer');

    is $answer->{inner_calls}, 0, "$variant: the inner handler is not called";
    is $answer->{outer_calls}, 1, "$variant: the one put back is";
    is $answer->{outer_read_back}, 1,
        "$variant: it was reported as its owner registered it";
}

no_crash($log);
