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


# Language runtimes install handlers of their own, some at every request: the
# hold works none the less, from the second request of a child on, too.  In
# prefork the child is told to go, elsewhere the server is restarted.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $cgi   = Apache::Test::vars('cgi_module_name');
my @pages = (
    [ 'slow.lua' => 'lua',             sub { module_file('lua') } ],
    [ 'slow.php' => 'php',             \&has_php ],
    [ 'slow.pl'  => 'perl',            sub { module_file('perl') } ],
    [ 'slow.cgi' => $cgi =~ s/^mod_//r, sub { 1 } ],
);

plan tests => 4 * @pages, need_sigdefer($cgi);

for my $row (@pages) {
    my ($page, $module, $have) = @$row;

  SKIP: {
        skip "mod_$module is not installed", 4 unless $have->();
        my $server = server(workers => 1, modules => [$module]);

        like fetch("/$page", $server->port), qr/END/, "$page: answers";
        my $pid    = probe('linked', 'state', $server->port)->{pid};
        my $client = Client->new($server->port)->get("/$page?chunks=15");

        $client->line_like(qr/^chunk: 3/, 10);
        if (mpm() eq 'prefork') {
            kill TERM => $pid;
        }
        else {
            $server->send_signal('HUP');
        }
        like $client->rest(8), qr/^chunk: 15\nEND\n\z/m,
            "$page: the client gets all of it";
        ok wait_until(2, sub { !is_running($pid) }),
            "$page: then the child leaves";
        no_crash($server->log);
    }
}
