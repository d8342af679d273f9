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


# The page is asked for while children are killed and the server restarts: every
# answer is whole, and nothing is missing or counted twice in any of them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';
use JSON::PP ();

use constant TURNS => 60;

plan tests => 6, need_sigdefer();

my $server = status_server();
my $port   = $server->port;

for (1 .. 20) {
    probe('linked', 'order', $port);
}

my ($asked, @wrong, @broken) = (0);
for my $turn (1 .. TURNS) {
    my @clients = grep { $_ } map { eval { Client->new($port) } } 1 .. 3;
    my @pids    = $server->child_pids;

    $_->get('/sigdefer-status?json') for @clients;
    kill KILL => $pids[ $turn % @pids ] if @pids > 1;
    $server->send_signal('USR1') if $turn % 10 == 0;
    look_at($_) for map { eval { $_->rest(15) } // '' } @clients;
}
cmp_ok $asked, '>=', 10, "the page has been seen $asked times";
is_deeply \@broken, [], 'always whole';
is_deeply \@wrong,  [], 'always with the same sums';
wait_for_children($server);
my $status = status($port);
is_deeply signal_row($status, 'USR2'), [ 20, 20, 0, 20 ], 'and in the end';
cmp_ok $status->{figures}{children_ended}, '>=', 10, 'children have ended';
is_deeply [ $server->log->lines(qr/exit signal (?!Killed)/) ], [],
    'none but by what they were sent';

# An answer, if it is not that of a child that has been killed.
sub look_at {
    my ($answer) = @_;
    my ($body)   = $answer =~ /^HTTP.* 200 .*?\r\n\r\n(.*\}\n)\z/s or return;
    my $status   = eval { JSON::PP::decode_json($body) };

    ++$asked;
    if (!$status) {
        push @broken, $body;
        return;
    }
    my $row = join ' ', @{ signal_row($status, 'RTMIN+1') };
    push @wrong, $row if $row ne '60 60 0 60';
    return;
}
