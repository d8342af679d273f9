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


# A request in progress feels nothing of a restart: no call of its own returns
# early, and no program that it runs is hit.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $cgi  = Apache::Test::vars('cgi_module_name');
my @runs = (
    [ '/probe-linked/sleep?seconds=2' => qr/^slept: in full$/m, sub { 1 } ],
    [ '/sleep.cgi'                    => qr/^slept: in full$/m, sub { 1 } ],
    [ '/sleep.php'                    => qr/^slept: in full$/m, \&have_php ],
);

plan tests => 2 * (@runs + 1), need_sigdefer($cgi);

for my $signal (qw(HUP USR1)) {
    my $server = server(modules =>
            [$cgi =~ s/^mod_//r, have_php() ? 'php' : ()]);
    my @clients = map { Client->new($server->port)->get($_->[0]) }
        grep { $_->[2]->() } @runs;

    $_->line_like(qr/^pid: /, 5) for @clients;
    $server->send_signal($signal);
    for my $run (@runs) {
      SKIP: {
            my ($page, $expected, $have) = @$run;

            skip "$page: the module is not installed", 1 unless $have->();
            like shift(@clients)->rest(8), $expected, "$signal: $page";
        }
    }
    no_crash($server->log);
}
