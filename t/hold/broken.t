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


# A configuration that is broken when it is read again ends httpd's parent.  Its
# children are asked to go, too, and finish what they serve, but a new server
# has the ports at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 2 * 5, need_sigdefer();

for my $signal (qw(HUP USR1)) {
    my $server  = server(conf => 'SigDeferHoldTime 3');
    my @clients = $server->begin(('/probe-linked/slow?chunks=20') x 2,
        '/probe-linked/endless');
    my @pids = $server->child_pids;
    my $conf = $server->conf_file;

    open my $out, '>>', $conf or die "$conf: $!\n";
    print {$out} "NoSuchDirective\n";
    close $out or die "$conf: $!\n";
    $server->send_signal($signal);
    ok $server->wait_gone(5), "$signal: the parent is gone";
    ok wait_until(2, sub { eval { $server->check_port; 1 } }),
        "$signal: the port is free";
    is scalar(grep { $_->rest(10) =~ /\nEND\n\z/ } @clients[0, 1]), 2,
        "$signal: what was served is finished";
    ok wait_until(6, sub { !grep { is_running($_) } @pids }),
        "$signal: no child is left after the deadline";
    no_crash($server->log);
}
