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


# What the tests of the status page have in common: a server with several
# children in every MPM, and what sigdefer-status says of it.
#
#     my $server = status_server(conf => '...');
#     my $status = status($server->port);     # the JSON, as a structure
#     $status->{figures}{signals_received}
#     signal_row($status, 'USR2')             # received, deferred, held, run
#     my $answer = answer($port, '?auto', method => 'HEAD', accept => '...');

package StatusTest;

use strict;
use warnings;

use Exporter   qw(import);
use HTTP::Tiny ();
use JSON::PP   ();

use SigDeferTest;

our @EXPORT = qw(answer metric_text signal_row status status_lines
    status_server wait_for_children CHILDREN);

use constant CHILDREN => 4;

my $THREADED = "ServerLimit 16\nThreadLimit 2\nThreadsPerChild 2\n"
    . "MaxRequestWorkers 8\nStartServers " . CHILDREN . "\n"
    . "MinSpareThreads 8\nMaxSpareThreads 10\n";
my %PROCESSES = (
    prefork => "ServerLimit 16\nMinSpareServers " . CHILDREN . "\n"
        . 'MaxSpareServers ' . 2 * CHILDREN . "\n",
    worker   => $THREADED,
    event    => $THREADED,
    threaded => $THREADED,
);

sub status_server {
    my (%arg) = @_;
    my $server = server(%arg, workers => CHILDREN,
        conf => $PROCESSES{ mpm() } . ($arg{conf} // ''));

    wait_for_children($server);
    return $server;
}

# Until all children that there are to be are counted, and no other.
sub wait_for_children {
    my ($server) = @_;

    wait_until(10, sub {
        my $now = eval { status($server->port) } or return;
        my %there = map { $_ => 1 } $server->child_pids;

        return keys %there >= CHILDREN
            && join(' ', sort map { $_->{pid} } @{ $now->{children} })
            eq join(' ', sort keys %there);
    }) or die "children: ", join(' ', $server->child_pids), "\n";
    return;
}

sub answer {
    my ($port, $query, %arg) = @_;
    my $agent = HTTP::Tiny->new(timeout => 15, keep_alive => 0);

    return $agent->request($arg{method} // 'GET',
        "http://127.0.0.1:$port/sigdefer-status$query",
        { headers => { $arg{accept} ? (Accept => $arg{accept}) : () } });
}

sub status {
    my ($port) = @_;
    return JSON::PP::decode_json(fetch('/sigdefer-status?json', $port));
}

# The lines of ?auto by name.
sub status_lines {
    my ($port) = @_;
    return { map { /^(\S+): (.*)$/ ? ($1 => $2) : die "no line: $_\n" }
            split /\n/, fetch('/sigdefer-status?auto', $port) };
}

sub metric_text {
    my ($port) = @_;
    return fetch('/sigdefer-status?metrics', $port);
}

sub signal_row {
    my ($status, $name) = @_;
    my ($row) = grep { $_->{name} eq $name } @{ $status->{signals} };

    return [ @{ $row // {} }{qw(received deferred held run)} ];
}

1;
