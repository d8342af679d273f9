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

# A round of a contest of servers: all run at the same time, and are asked in
# turn, in slices, forth and back, so that what else the machine does meets all.
#
#     my @results = server_round(
#         load        => 'build/bench/load',
#         clients     => 8,        # spread over the listening sockets
#         connections => 8000,     # or requests, with keep
#         keep        => 1,        # HTTP/1.1, connections are kept
#         servers     => [
#             { port => 8080, listeners => 2, ... },    # the rest is
#         ],                                            # PrivateHttpd's
#     );
#
# The listening sockets have the port and those that follow it.  A result, for
# each server in the order given:
#
#   rate      connections per second
#   cpu       seconds for 100,000 connections
#   failed    connections
#   children  CPU of each child, of their mean
#   idle_kib, used_kib   memory of the children, before the first connection
#             and after the last: what is shared counts in parts

package ServerRound;

use strict;
use warnings;

use Exporter qw(import);
use JSON::PP qw(decode_json);
use List::Util qw(max sum0);
use PrivateHttpd ();
use ServerCpu qw(cpu_seconds cpu_of_children child_ids);

our @EXPORT_OK = qw(server_round);

use constant {
    SLICES  => 4,
    WARM_UP => 400,
};

sub server_round {
    my (%round) = @_;
    my @servers = map { start_server($_) } @{ $round{servers} };
    my @running = @servers;

    for my $server (@servers) {
        ask($server, WARM_UP, %round);
        $server->{failed}   = 0;
        $server->{cpu}      = cpu_seconds($server->{httpd});
        $server->{children} = { cpu_of_children($server->{httpd}) };
    }
    for my $slice (1 .. SLICES) {
        $_->{seconds} += ask($_, $round{connections} / SLICES, %round)
            for @running;
        @running = reverse @running;
    }
    my @results = map { result($_, $round{connections}) } @servers;
    $_->{httpd}->stop for @servers;
    return @results;
}

sub start_server {
    my ($wanted) = @_;
    my $last  = $wanted->{port} + $wanted->{listeners} - 1;
    my $httpd = PrivateHttpd->new(
        %$wanted,
        conf => ($wanted->{conf} // '')
            . join('', map { "Listen 127.0.0.1:$_\n" }
                $wanted->{port} + 1 .. $last),
    );

    $httpd->start;
    return { httpd => $httpd, wanted => $wanted,
        idle_kib => memory_of($httpd) };
}

sub result {
    my ($server, $connections) = @_;
    my ($httpd, $before) = @$server{qw(httpd children)};
    my $cpu  = cpu_seconds($httpd) - $server->{cpu};
    my %used = cpu_of_children($httpd);
    my @used = map { $used{$_} - ($before->{$_} // 0) } keys %used;
    my $mean = sum0(@used) / @used;

    return {
        rate     => $connections / $server->{seconds},
        cpu      => $cpu / $connections * 100_000,
        failed   => $server->{failed},
        children => [map { $_ / $mean } @used],
        idle_kib => $server->{idle_kib},
        used_kib => memory_of($httpd),
    };
}

sub memory_of {
    my ($httpd) = @_;

    return sum0(map {
        PrivateHttpd::slurp("/proc/$_/smaps_rollup") =~ /^Pss:\s+(\d+)/m
            ? $1 : 0
    } child_ids($httpd));
}

# A client program for each listener; the seconds that the slowest one took.
sub ask {
    my ($server, $connections, %round) = @_;
    my ($port, $parts) = @{ $server->{wanted} }{qw(port listeners)};
    my @outputs = map {
        my @command = ($round{load}, '-p', $port + $_,
            '-u', '/static.html', '-e', "END\n",
            '-c', $round{clients} / $parts, $round{keep} ? '-k' : (),
            '-n', int($connections * ($_ + 1) / $parts)
                - int($connections * $_ / $parts));
        open my $out, '-|', @command or die "$round{load}: $!\n";
        $out;
    } 0 .. $parts - 1;
    my @results = map { decode_json(scalar(<$_>) // '{}') } @outputs;

    close $_ or die "$round{load} failed\n" for @outputs;
    $server->{failed} += $connections - sum0(map { $_->{answered} } @results);
    return max(map { $_->{seconds} } @results);
}

1;
