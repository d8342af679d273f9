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


# A user of the header can tell whether sections protect anything.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 14, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $answer = probe($variant, 'state');
    is $answer->{state}, '2 ON', "$variant: on with nothing but LoadModule";
    is $answer->{depth}, 0, "$variant: a request starts outside of sections";
}

{
    my $off = server(conf => "SigDefer Off\n", probe => 'linked');
    my $port = $off->port;
    is probe('linked', 'state', $port)->{state}, '1 OFF',
        'linked: SigDefer Off is told';
    unprotected('linked, off', probe('linked', 'nesting', $port));
}

SKIP: {
    skip 'the module is always there', 5 if is_builtin();
    my $absent = server(sigdefer => 0, probe => 'soft');
    my $port = $absent->port;
    is probe('soft', 'state', $port)->{state}, '0 ABSENT',
        'soft: loads without the module, and knows it';
    unprotected('soft, absent', probe('soft', 'nesting', $port));
    is probe('soft', 'unpaired', $port)->{depth_second}, 0,
        'soft, absent: leaves without an enter are clamped';
}

no_crash($log);

# Sections count, and handlers run at once.
sub unprotected {
    my ($who, $answer) = @_;
    is $answer->{depth_inner}, 2, "$who: sections count";
    is $answer->{calls_inner}, 1, "$who: a signal is handled at once";
    is $answer->{depth_after}, 0, "$who: the depth is 0 in the end";
}
