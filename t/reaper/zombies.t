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


# Processes that a child has started and does not wait for: when their zombies
# are reaped is what SigDeferReapChildren says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my $forks = 20;
my %left  = (
    Off    => [ $forks, $forks ],
    Idle   => [ $forks, 0 ],
    Signal => [ 0,      0 ],
);

plan tests => 4 * keys %left, need_sigdefer('mod_perl.c');

for my $mode (sort keys %left) {
    my $server = server(
        workers => 1,
        modules => ['perl'],
        conf    => "SigDeferReapChildren $mode",
    );
    my ($during, $after) = @{ $left{$mode} };
    my $client = Client->new($server->port)->get("/forks.pl?$forks");
    my ($pid) = $client->line_like(qr/^pid: /, 10) =~ /(\d+)/;

    $client->line_like(qr/^ended/, 10);
    ok wait_until(3, sub { zombies($pid) == $during }),
        "$mode: $during zombies while the request is served"
        or diag zombies($pid);
    $client->rest(10);
    ok wait_until(3, sub { zombies($pid) == $after }),
        "$mode: $after zombies when the connection has ended"
        or diag zombies($pid);
    is probe('linked', 'stats', $server->port)->{reaped}, $forks - $after,
        "$mode: what was reaped is counted";
    no_crash($server->log);
}

sub zombies {
    my ($pid) = @_;
    my %state = children_of($pid);
    return scalar grep { $_ eq 'Z' } values %state;
}
