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


# A module that is linked against mod_sigdefer cannot be loaded without it, nor
# before it; a soft one can.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 4, need_sigdefer(
    { 'the module is always there' => !is_builtin() });

my %file = map { $_ => module_file($_) } qw(sigdefer probe_linked probe_soft);
my %load = map { $_ => "LoadModule ${_}_module \"$file{$_}\"" } keys %file;

my ($ok, $output) = configtest($load{probe_linked}, sigdefer => 0);
ok !$ok, 'linked: not without mod_sigdefer';
like $output, qr/undefined symbol: .*sigdefer/, 'linked: the message says so';

($ok, $output) = configtest($load{probe_soft}, sigdefer => 0);
ok $ok, 'soft: without it' or diag $output;

($ok, $output) = configtest("$load{probe_soft}\n$load{sigdefer}",
    sigdefer => 0);
ok $ok, 'soft: before it' or diag $output;
