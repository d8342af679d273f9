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


# A Listen that is added at a restart, and one that is removed, while a child of
# the old generation serves.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 5, need_sigdefer();

for my $signal (qw(HUP USR1)) {
    my $server = server(listeners => 1);
    my $second = $server->second_port;
    my $listen = "Listen 127.0.0.1:$second\n";
    my ($client) = $server->begin('/probe-linked/slow?chunks=15');

    change_conf($server, sub { $_[0] . $listen });
    $server->send_signal($signal);
    ok wait_until(5, sub { eval { fetch('/index.html', $second) } }),
        "$signal: a port is added";
    like $client->rest(8), qr/\nEND\n\z/,
        "$signal: what was served is finished";

    ($client) = $server->begin('/probe-linked/slow?chunks=30');
    change_conf($server, sub { $_[0] =~ s/\Q$listen\E//r });
    $server->send_signal($signal);
    $server->log->wait_for(qr/resuming normal operations.*\z/s, 5);
    ok wait_until(1.5, sub { refused($second) }),
        "$signal: a port is removed at once";
    like $client->rest(8), qr/\nEND\n\z/,
        "$signal: what was served is finished";
    no_crash($server->log);
}

sub change_conf {
    my ($server, $change) = @_;
    my $file = $server->conf_file;
    my $text = PrivateHttpd::slurp($file);

    open my $out, '>', $file or die "$file: $!\n";
    print {$out} $change->($text);
    close $out or die "$file: $!\n";
    return;
}

sub refused {
    my ($port) = @_;
    return !eval { Client->new($port) };
}
