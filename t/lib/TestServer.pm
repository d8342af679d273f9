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


# A server that a test starts for itself, in the MPM that is tested, with two
# listeners (with one, httpd takes no accept mutex).
#
#     my $server = TestServer->new(%arg);    # runs when it is returned
#
# Besides what PrivateHttpd knows: sigdefer => 0 leaves the module out, probe
# => 'linked', 'soft' or undef says which probe is in, conf is added to what
# the server of the suite has for the pages and the probes (a sub that returns
# it is told the second port), listeners says how many there are, start => 0
# leaves it to the test to launch it.

package TestServer;

use strict;
use warnings;

use FindBin ();
use IO::Socket::INET ();

use Apache::Test ();
use Client       ();
use LogWatch     ();

use parent 'PrivateHttpd';

my $count = 0;

sub new {
    my ($class, %arg) = @_;
    my $modules = Apache::Test::config()->{modules};
    my $mpm     = Apache::Test::config()->{mpm};
    my $conf    = Apache::Test::vars('t_conf');
    my $probe   = exists $arg{probe} ? $arg{probe} : 'linked';
    my ($area)  = $FindBin::Bin =~ /([\w-]+)$/;
    my ($topic) = $FindBin::Script =~ /^([\w-]+)/;
    my $listeners = $arg{listeners} // 2;
    my ($port, $second, @more) = free_ports($listeners);
    my @others = splice @{ [ $second, @more ] }, 0, $listeners - 1;

    my $self = $class->SUPER::new(
        workers => 4,
        pages   => [Apache::Test::vars('documentroot')],
        %arg,
        name     => join('-', 't', $mpm, $area, $topic, ++$count),
        mpm      => $mpm,
        port     => $port,
        sigdefer => $arg{sigdefer} // 1
        ? $modules->{'mod_sigdefer.c'}
        : undef,
        modules => [
            @{ $arg{modules} // [] },
            $probe ? "probe_$probe=$modules->{\"mod_probe_$probe.c\"}" : (),
        ],
        conf => join("\n",
            (map { "Listen 127.0.0.1:$_" } @others),
            'LogLevel info',
            "Include \"$conf/pages.conf\"",
            ref $arg{conf} ? $arg{conf}->($second) : $arg{conf} // '', ''),
    );
    $self->{second} = $second;
    $self->{ports}  = [ $port, @others ];

    if ($arg{start} // 1) {
        $self->start;
    }
    else {
        $self->write_root;
    }
    $self->{log} = LogWatch->new("$self->{root}/logs/error_log");
    return $self;
}

# From the range of ports that belongs to the MPM.
sub free_ports {
    my ($wanted) = @_;
    my $first = Apache::Test::vars('port');
    my @free  = grep {
        IO::Socket::INET->new(
            LocalAddr => '127.0.0.1',
            LocalPort => $_,
            Proto     => 'tcp',
            ReuseAddr => 1,
        )
    } $first + 2 .. $first + 29;

    $wanted = 2 if $wanted < 2;
    @free >= $wanted or die "no free port\n";
    return @free[0 .. $wanted - 1];
}

sub port { return $_[0]->{port} }

# Of all listeners.
sub ports { return @{ $_[0]->{ports} } }

# Of the second listener.
sub second_port { return $_[0]->{second} }

# Of what has been logged since the start.
sub log { return $_[0]->{log} }

sub child_pids {
    my ($self) = @_;
    return map { /^(\d+)/ } $self->children;
}

# Requests in progress: a client for each, whose page has told its pid.
sub begin {
    my ($self, @paths) = @_;
    my @clients = map { Client->new($self->port)->get($_) } @paths;

    for my $client (@clients) {
        my $line = $client->line_like(qr/^pid: /, 15) // '';

        ($client->{pid}) = $line =~ /(\d+)/;
    }
    return @clients;
}

# Neither the parent nor a child, nor a program that one of them has started.
sub nobody_left {
    my ($self, $seconds) = @_;
    return PrivateHttpd::wait_until($seconds,
        sub { !$self->alive && !$self->members });
}

1;
