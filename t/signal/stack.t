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


# A handler keeps the stack and the restarting that it was registered with.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 12 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'alternate-stack');

    is $answer->{outside_on_stack}, 1,
        "$variant: called on the alternate stack outside of sections";
    is $answer->{calls_inside}, 1, "$variant: not called inside";
    is $answer->{calls_after},  2, "$variant: called at the end";
    is $answer->{replayed_on_stack}, 2, "$variant: on that stack, too";
    is $answer->{kernel_onstack}, 1, "$variant: the kernel has ONSTACK";
    is $answer->{kernel_restart}, 1, "$variant: and RESTART";
    is $answer->{kernel_no_restart}, 1,
        "$variant: and no RESTART where none was asked for";
    is $answer->{registered_onstack}, 1, "$variant: ONSTACK is read back";
    is $answer->{registered_no_restart}, 1, "$variant: and no RESTART";

    $answer = probe($variant, 'restarted-call');
    is $answer->{with_restart}, 'read',
        "$variant: RESTART: a read goes on after the signal";
    is $answer->{without_restart}, 'EINTR', "$variant: without: it ends";
    is $answer->{calls}, 2, "$variant: the handler was called both times";
}

no_crash($log);
