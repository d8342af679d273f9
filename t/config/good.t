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


# Legal input is taken, and signals are what it makes them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @lines = (
    'SigDefer On',
    'SigDefer off',
    'SigDeferSignals USR1',
    'SigDeferSignals sigusr1 SIGALRM usr2',
    'SigDeferSignals +RTMIN+3 -PROF',
    'SigDeferSignals RTMIN RTMIN+1 WINCH CHLD',
    "SigDeferSignals -USR2\nSigDeferSignals +URG",
    'SigDeferHold Off',
    'SigDeferHoldTime 1',
    'SigDeferHoldTime 3600',
    'SigDeferReapChildren Off',
    'SigDeferReapChildren signal',
    'SigDeferReapChildren Idle',
);

plan tests => @lines + 4, need_sigdefer();

for my $line (@lines) {
    my ($ok, $output) = configtest($line);
    ok $ok, $line =~ s/\n/; /gr or diag $output;
}

{
    my $server = server(conf => 'SigDeferSignals -USR2');
    my $answer = probe('linked', 'actions', $server->port);
    my $ours   = is_builtin() ? qr/httpd/ : qr/mod_sigdefer/;

    unlike $answer->{'kernel USR2'}, $ours,
        'a signal that is taken out is left alone';
    like $answer->{'kernel ALRM'}, $ours, 'the others are not';
    $answer = probe('linked', 'nesting', $server->port);
    is $answer->{calls_inner}, 0, 'registered by a module, it waits, too';
    no_crash($server->log);
}
