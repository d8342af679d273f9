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


# Who waits for a program of his own gets its exit status, unless reaping is
# immediate; there programs run all the same.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $cgi = Apache::Test::vars('cgi_module_name');

my @pages = (
    [ '/probe-linked/statuses' => [qw(pclose=7 system=9)], sub { 1 } ],
    [
        '/statuses.php' => [qw(exec=5 pclose=7 proc_close=8 system=9)],
        \&has_php
    ],
    [
        '/statuses.pl' => [qw(backtick=6 pipe=7 system=9 waitpid=4)],
        sub { module_file('perl') }
    ],
);

plan tests => 3 * (@pages + 2), need_sigdefer($cgi);

for my $mode (qw(Off Idle Signal)) {
    my $server = server(
        modules => [
            $cgi =~ s/^mod_//r,
            module_file('perl') ? 'perl' : (),
            has_php()          ? 'php'  : (),
        ],
        conf => "SigDeferReapChildren $mode",
    );

    for my $row (@pages) {
        my ($page, $statuses, $have) = @$row;
      SKIP: {
            skip "$page: the module is not installed", 1 unless $have->();
            my @found = sort map { s/: /=/r } grep { /^\w+: \d+$/ }
                split /\n/, fetch($page, $server->port) =~ s/: -1$/: 255/gmr;

            if ($mode eq 'Signal') {
                is scalar @found, @$statuses, "$mode: $page: they run";
            }
            else {
                is "@found", "@$statuses", "$mode: $page: all statuses";
            }
        }
    }
    like fetch('/status.cgi', $server->port), qr/^SigCgt:.*\n/m,
        "$mode: a CGI program answers in full";
    no_crash($server->log);
}
