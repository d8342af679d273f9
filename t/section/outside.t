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


# A signal that another process sends waits for the end of the section.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 4 + 1, need_sigdefer();

my $log = error_log();

for my $variant (variants()) {
    my $client = Client->new(port())->get("/probe-$variant/hold?ms=400");
    my ($pid) = $client->line_like(qr/^pid: /, 5) =~ /(\d+)/;

    kill USR2 => $pid;
    my %answer = $client->rest(5) =~ /^(\w+): (\d+)/mg;
    is $answer{calls_inside}, 0,  "$variant: not handled inside";
    is $answer{calls_after},  1,  "$variant: handled once at the end";
    is $answer{sender},       $$, "$variant: with the sender it came from";
    is $answer{code_user},    1,  "$variant: and as sent by kill";
}

no_crash($log);
