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


# The parent's signals are the same without the module, with it and with
# SigDefer Off; those of a child are so with SigDefer Off.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my %servers = (
    stock => { sigdefer => 0 },
    # exclusive, which event has, is told of deaths: see mpm/exclusive.c
    on    => { conf => 'SigDeferAcceptLock default' },
    off   => { conf => 'SigDefer Off' },
);
my @masks = qw(SigBlk SigIgn SigCgt);

plan tests => 2 * @masks + 3 + keys %servers, need_sigdefer();

my (%parent, %child, %kernel);

for my $name (keys %servers) {
    my $server = server(%{ $servers{$name} }, probe => 'soft');
    my $answer = probe('soft', 'actions', $server->port);

    $parent{$name} = proc_status($server->pid);
    $child{$name}  = join ' ', map { "$_ $answer->{$_}" } @masks;
    $kernel{$name} = join "\n", map { "$_: $answer->{$_}" }
        sort grep { /^kernel/ } keys %$answer;
    no_crash($server->log);
}

for my $name (qw(on off)) {
    is $parent{$name}{$_}, $parent{stock}{$_},
        "$name: $_ of the parent is as without the module"
        for @masks;
}
is $child{off}, $child{stock}, 'off: the masks of a child are, too';
is $kernel{off}, $kernel{stock}, 'off: and the actions of all signals';
isnt $kernel{on}, $kernel{stock}, 'on: those are not';
