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


# The programs that a request has started, and theirs, are told to end when it
# is cut at the deadline, as a hard restart or stop of httpd alone tells them;
# those that have left its process group live on.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

# mod_cgid's programs are not the child's.  A thread that reads from its program
# holds a lock of stdio, which another one asks for before it starts a program.
my %pages_of = (
    probe => ['/probe-linked/wait?by=popen&seconds=60'],
    cgi   => [ '/wait.cgi?60', '/apart.cgi?60' ],
    lua   => mpm() eq 'prefork' ? ['/wait.lua?by=popen&seconds=60'] : [],
    perl  => ['/wait.pl?by=popen&seconds=60'],
    php   => ['/wait.php?by=popen&seconds=60'],
);
my @pages = map { @{ $pages_of{$_} || [] } } 'probe', languages();
my $apart = grep {/apart/} @pages;

plan tests => 2 * 6, need_sigdefer();

for my $signal (qw(HUP TERM)) {
    my $server = server(
        workers => scalar @pages,
        modules => [languages()],
        conf    => 'SigDeferHoldTime 1',
    );
    my @clients = $server->begin(@pages);
    my (@stay, @go);

    ok wait_until(5, sub {
            my @programs = programs($server);
            @stay = grep { session($_) != session($server->pid) } @programs;
            @go   = grep { session($_) == session($server->pid) } @programs;
            return @stay == $apart && @go >= @pages;
    }), "$signal: each page has started a program";
    $server->send_signal($signal);
    ok !wait_until(0.7, sub { grep { !is_running($_) } @go, @stay }),
        "$signal: they have their time";
    ok wait_until(2, sub { !grep { is_running($_) } @go }),
        "$signal: at the deadline they are ended";
    is scalar(grep { is_running($_) } @stay), $apart,
        "$signal: but not what has left the process group";
    kill KILL => @stay;
    like $server->log->wait_for(qr/S022: hold time/, 5) // '',
        qr/ends "GET/, "$signal: requests have been cut";
    no_crash($server->log);
}

# What the children have started, and what that has.
sub programs {
    my ($server) = @_;
    my %children = children_of($server->pid);
    return map { descendants($_) } keys %children;
}

sub descendants {
    my ($pid) = @_;
    my %children = children_of($pid);
    return map { $_, descendants($_) } keys %children;
}

sub session {
    my ($pid) = @_;
    return (PrivateHttpd::process($pid) || {})->{session} // 0;
}
