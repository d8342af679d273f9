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


# errno is the same after a signal, and after a child that was reaped, as it
# was before.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 2 + 2 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    unchanged($variant, probe($variant, 'errno'));
}
{
    my $server = server(conf => 'SigDeferReapChildren Signal');
    unchanged('reaping', probe('linked', 'errno', $server->port));
}

no_crash($log);

sub unchanged {
    my ($who, $answer) = @_;
    cmp_ok $answer->{calls}, '>=', 200, "$who: many signals and dead children";
    is $answer->{differences}, 0, "$who: errno never changes";
}
