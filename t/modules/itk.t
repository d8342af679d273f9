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


# mpm_itk serves each connection in a process of its own, forked from a child
# of prefork and with a user of its own: it is finished, too.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @signals = qw(HUP USR1 TERM);

plan tests => @signals * 4, need_child_signals(
    { 'mpm_itk is not installed' => installed('mpm_itk') },
    { 'mpm_itk changes users as root only' => $> == 0 });

for my $signal (@signals) {
    my $server = server(
        workers => 4,
        modules => ['mpm_itk=' . installed('mpm_itk')],
        conf    => 'AssignUserID www-data www-data',
    );
    my @clients = $server->begin('/probe-linked/slow?chunks=15',
        '/probe-linked/wait?by=sleep&seconds=2');
    my @pids = ($server->child_pids, map { $_->pid } @clients);

    $server->send_signal($signal);
    is scalar(grep { /^(?:END|waited: in full)\n\z/m }
            map { $_->rest(8) } @clients), 2,
        "$signal: what was served is finished";
    replaced($server, $signal, 5, '/index.html', $signal, @pids);
    no_crash($server->log);
}
