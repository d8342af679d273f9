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


# Programs inherit neither a mask nor ignored signals that they would not have
# without the module: one started inside of two sections, a CGI program, and
# a piped logger.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $cgi = Apache::Test::vars('cgi_module_name');

plan tests => 8, need_sigdefer($cgi);

my %found;

for my $sigdefer (0, 1) {
    my $note   = Apache::Test::vars('t_logs') . '/piped-logger';
    my $server = server(
        sigdefer => $sigdefer,
        probe    => 'soft',
        modules  => [$cgi =~ s/^mod_//r],
        conf     => "CustomLog \"|\$cat /proc/self/status > '$note';"
            . " exec cat > /dev/null\" common",
    );

    wait_until(5, sub { -s $note });
    $found{spawned}[$sigdefer] = fetch('/probe-soft/spawn', $server->port);
    $found{cgi}[$sigdefer]     = fetch('/status.cgi', $server->port);
    $found{logger}[$sigdefer]  = PrivateHttpd::slurp($note);
    unlink $note;
    no_crash($server->log);
}

for my $program (sort keys %found) {
    my ($stock, $ours) = map { signals($_) } @{ $found{$program} };

    like $stock, qr/^SigBlk: \w+ SigIgn: \w+$/, "$program: tells its signals";
    is $ours, $stock, "$program: has the same ones with the module";
}

sub signals {
    my ($text) = @_;
    return join ' ', $text =~ /^(Sig(?:Blk|Ign):)\s*(\w+)/mg;
}
