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


# Directives that the module has, those that README.md describes and those of
# httpd.conf.sample are the same, and so are their defaults.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $source = Apache::Test::vars('src_dir');
my $readme = PrivateHttpd::slurp("$source/README.md");
my $sample = PrivateHttpd::slurp("$source/httpd.conf.sample");
my $module = PrivateHttpd::slurp("$source/mod_sigdefer.c");

plan tests => 6, need_sigdefer();

my @known     = sort $module =~ /AP_INIT_\w+\("(\w+)"/g;
my @described = sort $readme =~ /^### (SigDefer\w*)$/mg;
my %default   = $readme =~ /^    Default: +(SigDefer\w*) (.*)$/mg;
my %sampled   = $sample =~ /^(SigDefer\w*) (.*)$/mg;

cmp_ok scalar @known, '>=', 5, 'the module has directives';
is "@described", "@known", 'README.md describes them';
is join(' ', sort keys %sampled), "@known", 'the sample has them';
is_deeply \%sampled, \%default, 'with the defaults that README.md tells';
is scalar(() = $readme =~ /^    Syntax: +SigDefer/mg), scalar @known,
    'each has a syntax';

my ($ok, $output) = configtest($sample =~ s/^LoadModule .*$//mr);
ok $ok, 'httpd takes the sample' or diag $output;
