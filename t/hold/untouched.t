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


# A request in progress feels nothing of a restart, a graceful restart or a
# stop: no call of its own returns early, and no program that it runs is hit,
# with the usual hold time and with a longer one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

# A thread that reads from its program holds a lock of stdio, which another one
# asks for before it starts a program.
my @lua_waits = mpm() eq 'prefork' ? qw(usleep popen) : qw(usleep);
my %pages_of = (
    probe => [
        map { "/probe-linked/wait?by=$_&seconds=" }
            qw(sleep poll select recv popen)
    ],
    cgi  => ['/wait.cgi?'],
    cgid => ['/wait.cgi?'],
    lua  => [map { "/wait.lua?by=$_&seconds=" } @lua_waits],
    perl => [map { "/wait.pl?by=$_&seconds=" } qw(sleep select popen)],
    php  => [map { "/wait.php?by=$_&seconds=" } qw(sleep recv select popen)],
);
my @pages = map { @{ $pages_of{$_} } } 'probe', languages();
my @runs  = map { my $signal = $_; [ $signal, 4, 5 ], [ $signal, 6, 7 ] }
    qw(HUP USR1 TERM);

plan tests => @runs * (@pages + 4), need_sigdefer();

# All of them at the same time, each on a server of its own.
for my $run (@runs) {
    my ($signal, $seconds, $hold) = @$run;
    my $server = server(
        workers => scalar @pages,
        modules => [languages()],
        conf    => "SigDeferHoldTime $hold",
    );

    $run->[3] = $server;
    $run->[4] = [$server->begin(map { $_ . $seconds } @pages)];
    $server->send_signal($signal);
}
Client->finish(15, map { @{ $_->[4] } } @runs);
for my $run (@runs) {
    my ($signal, $seconds, $hold, $server, $clients) = @$run;
    my $who = "$signal, $seconds s";

    for my $i (0 .. $#pages) {
        is $clients->[$i]->rest(0), "waited: in full\n", "$who: $pages[$i]";
    }
    my @pids = map { $_->pid } @$clients;
    replaced($server, $signal, 3, '/index.html', $who, @pids);
    # with mod_cgid, the end of a request looks for the restarted daemon
    is_deeply [
        grep { mpm() eq 'prefork' || !/wait\.cgi/ }
            $server->log->lines(qr/hold time .* ends "/)
    ], [], "$who: no request was ended";
    no_crash($server->log);
}
