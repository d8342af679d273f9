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


# A leave without an enter is refused, counted and reported, and sections work
# as before.

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
    my $answer = probe($variant, 'unpaired');

    is $answer->{depth_first},  0, "$variant: the depth never is negative";
    is $answer->{depth_second}, 0, "$variant: nor after a second one";
    is $answer->{depth_inside}, 1, "$variant: the next section is a section";
    is $answer->{calls_inside}, 0, "$variant: a signal waits in it";
    is $answer->{calls_after},  1, "$variant: and is handled at its end";
    is $answer->{counted},      2, "$variant: both leaves are counted";
    ok $log->wait_for(qr/S012: 2 leave\(s\) without an enter/, 3),
        "$variant: and reported";
}

no_crash($crashes);
