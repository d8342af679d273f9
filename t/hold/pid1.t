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


# httpd as process 1, as in a container, which ends with it: at a stop it goes
# last, when all requests have been served.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @container = qw(unshare --pid --fork --mount-proc);
my $cgi       = Apache::Test::vars('cgi_module_name');
my @paths     = (
    '/probe-linked/slow?chunks=20',
    '/probe-linked/wait?by=sleep&seconds=2',
    '/probe-linked/wait?by=popen&seconds=2',
    '/wait.cgi?2',
);

plan tests => 3 * 4, need_sigdefer($cgi,
    { 'no PID namespace to be had' =>
            system("@container true >/dev/null 2>&1") == 0 });

my @runs = map { begin(@$_) } [ 'HUP' ], [ 'TERM' ], [ 'WINCH', 'TERM' ];

Client->finish(15, map { @{ $_->[3] } } @runs);
for my $run (@runs) {
    my ($who, $server, $pid, $clients) = @$run;
    my @whole = grep { /^(?:END|waited: in full)\n\z/m }
        map { $_->rest(0) } @$clients;

    is scalar @whole, scalar @paths, "$who: what was served is finished";
    if ($who eq 'HUP') {
        ok eval { fetch('/index.html', $server->port) }, "$who: it serves";
        kill TERM => $pid;
    }
    else {
        ok 1 < @whole, "$who: it was still there";
    }
    ok $server->nobody_left(5), "$who: it stops, and nobody is left";
    no_crash($server->log);
}

sub begin {
    my (@signals) = @_;
    my $server  = server(wrapper => \@container, modules => [$cgi =~ s/^mod_//r]);
    my ($pid)   = $server->child_pids;
    my @clients = $server->begin(@paths);

    kill $_ => $pid for @signals;
    return ["@signals", $server, $pid, \@clients];
}
