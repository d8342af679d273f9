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


# Sections nest, in whichever of its three forms they are entered.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @forms = qw(macro zend call);

plan tests => 2 * @forms * 9 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    for my $form (@forms) {
        my $answer = probe($variant, "nesting?by=$form");
        my $who    = "$variant, $form";

        is $answer->{depth_inner}, 2, "$who: the depth counts sections";
        is $answer->{calls_inner}, 0, "$who: a signal waits";
        is $answer->{pending},     1, "$who: one signal is told as pending";
        is $answer->{pending_usr2}, 1, "$who: and it is the one that came";
        is $answer->{calls_outer}, 0,
            "$who: leaving the inner section changes nothing";
        is $answer->{calls_after}, 1,
            "$who: leaving the outer one lets the handler run";
        is $answer->{depth_in_handler}, 0, "$who: the handler is outside";
        is $answer->{pending_after},    0, "$who: nothing is pending then";
        is $answer->{calls_outside},    2,
            "$who: outside a signal is handled at once";
    }
}

no_crash($log);
