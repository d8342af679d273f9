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


# SigDeferAcceptLock against Mutex, for several MPMs, and off.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use AcceptTest;
use Apache::Test '-withtestmore';

my $takes = mpm() ne 'event';
my $auto  = qr/^futex \(auto: the best that works here\)$/;
my $own   = qr/^the MPM's own \(as configured\)$/;
my $named = qr/^pthread \(as configured\)$/;
my $mpm   = mpm();
my $other = $mpm eq 'prefork' ? 'worker' : 'prefork';

# What is shown for a configuration.
my @choices = (
    [ ''                                      => $auto ],
    [ 'SigDeferAcceptLock auto'               => $auto ],
    [ 'SigDeferAcceptLock Default'            => $own ],
    [ 'SigDeferAcceptLock pthread'            => $named ],
    [ "SigDeferAcceptLock pthread $mpm"       => $named ],
    [ "SigDeferAcceptLock pthread $other $mpm" => $named ],
    [ "SigDeferAcceptLock pthread $other"     => $auto ],
    [ "SigDeferAcceptLock pthread $mpm\nSigDeferAcceptLock fcntl $other" =>
            $named ],
    [ "SigDeferAcceptLock fcntl\nSigDeferAcceptLock pthread $mpm" => $named ],
    [ "<IfModule $mpm.c>\nSigDeferAcceptLock pthread\n</IfModule>\n"
            . "<IfModule $other.c>\nSigDeferAcceptLock fcntl\n</IfModule>" =>
            $named ],
    [ "SigDeferAcceptLock pthread\nSigDeferAcceptLock pthread" => $named ],
    [ 'Mutex fcntl mpm-accept' =>
            qr/^the MPM's own \(Mutex fcntl mpm-accept\)$/ ],
    [ "<IfModule $mpm.c>\nMutex sysvsem default mpm-accept\n</IfModule>" =>
            qr/^the MPM's own \(Mutex sysvsem mpm-accept\)$/ ],
    [ "Mutex fcntl mpm-accept\nSigDeferAcceptLock auto" =>
            qr/^the MPM's own \(Mutex fcntl mpm-accept\)$/ ],
    [ 'Mutex fcntl'                           => $auto ],
    [ 'Mutex fcntl default'                   => $auto ],
    [ 'Mutex default mpm-accept'              => $auto ],
    [ "Mutex fcntl mpm-accept\nSigDeferAcceptLock pthread" => $named ],
    [ "SigDefer Off\nSigDeferAcceptLock pthread" =>
            qr/^the MPM's own \(SigDefer Off\)$/ ],
);

# What the MPM then says itself.
my @servers = (
    [ 'Mutex fcntl mpm-accept'                             => 'fcntl' ],
    [ "Mutex fcntl mpm-accept\nSigDeferAcceptLock pthread" => 'pthread' ],
    [ "Mutex fcntl\nSigDefer Off"                          => 'fcntl' ],
    [ "Mutex fcntl\nSigDeferAcceptLock default"            => 'fcntl' ],
);

if (!$takes) {
    # it registers no mutex of that type, and cannot be named for a lock
    $auto    = qr/^exclusive \(auto: it works here\)$/;
    @choices = map { [ $_->[0] => $_->[0] =~ /Default|Off/ ? $_->[1] : $auto ] }
        grep { $_->[0] !~ /mpm-accept|event/ } @choices;
    push @choices, map {
        [ "SigDeferAcceptLock $_" => qr/^exclusive \(as configured\)$/ ]
    } 'exclusive', 'exclusive event', "exclusive event\nMutex fcntl";
    push @choices, [ 'SigDeferAcceptLock default event' => $own ],
        [ 'SigDeferAcceptLock auto event' => $auto ];
    @servers = ();
}

plan tests => @choices + 3 * @servers, need_sigdefer();

for my $choice (@choices) {
    my ($lines, $expected) = @$choice;
    my (undef, $output) = configtest($lines, options => '-D DUMP_RUN_CFG');
    my ($shown) = $output =~ /^SigDeferAcceptLock: (.*)$/m;

    like $shown // $output, $expected, label($lines);
}

for my $row (@servers) {
    my ($lines, $expected) = @$row;
    my $server = accept_server(conf => "$lines\n");

    is lock_name($server), $expected, label($lines) . ": it is $expected";
    $server->restart('HUP');
    is lock_name($server), $expected, label($lines) . ': after a restart';
    answers_on_all($server, 1, label($lines) . ': it serves');
}

sub label {
    my ($lines) = @_;
    return $lines eq '' ? 'nothing' : join ' / ', split /\n/, $lines;
}
