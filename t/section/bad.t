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


# Signals that cannot be deferred are refused, and nothing is changed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Config;

my %number;
@number{ split ' ', $Config{sig_name} } = split ' ', $Config{sig_num};

my @signals = (-1, 0, 65, 1065,
    @number{qw(KILL STOP SEGV BUS FPE ILL TRAP SYS ABRT)});

plan tests => 2 * (@signals + 2) + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'bad');

    for my $signal (@signals) {
        is $answer->{"signal $signal"}, 'EINVAL EINVAL',
            "$variant: $signal is refused by sigaction and signal";
    }
    is $answer->{nothing}, 0, "$variant: nothing to set, nothing to read";
    is probe($variant, 'nesting')->{calls_after}, 1,
        "$variant: sections work afterwards";
}

no_crash($log);
