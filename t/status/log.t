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


# Everything that is logged has an identifier of its own, and docs/log.md tells
# of each, with its level.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my %LEVEL = (ERR => 'error', WARNING => 'warning');

my $source = Apache::Test::vars('src_dir');
my @calls  = map { PrivateHttpd::slurp($_) =~ /\bap_log_r?error\((.*?)\);/gs }
    map { glob "$source/$_" } qw(mod_sigdefer.c sigdefer/*.c accept_lock/*.c
    hold/*.c mpm/*.c status/*.c);
my (%count, %levels, @without);

plan tests => 5, need_sigdefer();

for my $call (@calls) {
    my ($id) = $call =~ /"sigdefer: (S\d{3}): /;

    if (!$id) {
        push @without, $call;
        next;
    }
    ++$count{$id};
    $levels{$id} = join ', ', sort map { $LEVEL{$_} // lc }
        grep { !/MARK|STARTUP/ } $call =~ /APLOG_(\w+)/g;
}
my %told = map { /^\| (S\d{3}) \| ([^|]+) \|/
        ? ($1 => join ', ', sort split /, /, $2) : () }
    split /\n/, PrivateHttpd::slurp("$source/docs/log.md");

cmp_ok scalar keys %count, '>=', 20, 'there are messages';
is_deeply \@without, [], 'each has an identifier';
is_deeply [ grep { $count{$_} > 1 } sort keys %count ], [], 'of its own';
is_deeply [ sort keys %told ], [ sort keys %count ], 'docs/log.md has all';
is_deeply \%told, \%levels, 'with their levels';
