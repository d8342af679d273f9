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


# Signals to the parent one after the other, also while it reads its
# configuration: whatever they are, what is being served is finished, and in
# the end the server serves or is gone, with all of its children.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use Time::HiRes qw(sleep);

my $cgi  = Apache::Test::vars('cgi_module_name');
my @rows = (

    # 'config' waits until the configuration is being read again
    'HUP 0.05 HUP',
    'HUP USR1',
    'USR1 HUP',
    'HUP config HUP',
    'HUP config USR1',
    'USR1 config HUP',
    'USR1 config HUP HUP USR1',
    'WINCH TERM',
    'TERM HUP',
    'USR1 TERM',
    'HUP TERM',
    'HUP 0.05 TERM',
    'HUP config TERM',
    'HUP config WINCH',
    'USR1 config TERM TERM',
);
my @paths = (
    ('/probe-linked/slow?chunks=20') x 2,
    '/probe-linked/wait?by=sleep&seconds=2',
    '/probe-linked/wait?by=popen&seconds=2',
    '/wait.cgi?2',
);

plan tests => @rows * 4, need_sigdefer($cgi);

# All of them at the same time, each on a server of its own.
my @runs = map { begin($_) } @rows;

Client->finish(20, map { @{ $_->{clients} } } @runs);
for my $run (@runs) {
    my ($who, $server) = @$run{qw(who server)};
    my @whole = grep { /^(?:END|waited: in full)\n\z/m }
        map { $_->rest(0) } @{ $run->{clients} };

    is scalar @whole, scalar @paths, "$who: what was served is finished";
    if ($run->{stops}) {
        ok $server->nobody_left(10), "$who: then nobody is left";
    }
    else {
        ok wait_until(10, sub {
            !grep { is_running($_) } @{ $run->{pids} }
        }) && eval { fetch('/index.html', $server->port) },
            "$who: then the old children are gone, and new ones serve";
    }
    is_deeply [$server->log->lines(qr/hold time .* ends "/)], [],
        "$who: no request was ended";
    no_crash($server->log);
}

sub begin {
    my ($row)  = @_;
    my @steps  = split ' ', $row;
    my $pause  = $row =~ /config/;
    my $server = server(
        workers   => 8,
        modules   => [$cgi =~ s/^mod_//r],
        listeners => $pause ? 1 : 2,
        conf      => $pause ? 'ProbeOptions pause-in-config' : '',
    );
    my @clients = $server->begin(@paths);
    my %run = (
        who     => $row,
        server  => $server,
        clients => \@clients,
        pids    => [$server->child_pids],
        stops   => scalar($row =~ /TERM|WINCH/),
    );

    for my $step (@steps) {
        if ($step eq 'config') {
            $server->log->wait_for(qr/pause-in-config begins/, 5)
                or die "$row: the configuration is not read again\n";
        }
        elsif ($step =~ /^[\d.]+$/) {
            sleep $step;
        }
        else {
            $server->send_signal($step);
        }
    }
    return \%run;
}
