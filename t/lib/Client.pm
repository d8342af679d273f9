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


# A client that sees an answer arrive, line by line.
#
#     my $client = Client->new($port);       # dies if it is refused
#     $client->get('/slow');                 # HTTP/1.0, the body ends at EOF
#     my $line = $client->line(5);           # without its end; undef: EOF
#     my $text = $client->rest(10);          # up to EOF
#     $client->gone(1) or ...                # EOF or reset within a second
#     Client->finish(10, @clients);          # EOF on each; see rest(0)
#
# What does not come within the seconds given makes the method die.

package Client;

use strict;
use warnings;

use IO::Select ();
use IO::Socket::INET ();
use Time::HiRes qw(time);

sub new {
    my ($class, $port) = @_;
    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $port,
        Proto    => 'tcp',
        Timeout  => 5,
    ) or die "no connection to port $port: $@\n";

    return bless { socket => $socket, buffer => '', eof => 0 }, $class;
}

# Of the process that answers; see TestServer's begin.
sub pid { return $_[0]->{pid} }

sub get {
    my ($self, $path) = @_;

    $self->send("GET $path HTTP/1.0\r\n\r\n");
    return $self;
}

# For a keep-alive connection; the answer must have a Content-Length.
sub get_and_keep {
    my ($self, $path, $seconds) = @_;

    $self->send_request($path);
    return $self->answer($seconds);
}

sub send_request {
    my ($self, $path) = @_;

    $self->send("GET $path HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    return;
}

sub answer {
    my ($self, $seconds) = @_;
    my %answer = (header => '');

    while (defined(my $line = $self->line($seconds))) {
        last if $line eq '';
        $answer{header} .= "$line\n";
    }
    my ($length) = $answer{header} =~ /^Content-Length: (\d+)/mi;
    $self->fill($seconds) while length $self->{buffer} < ($length // 0)
        && !$self->{eof};
    $answer{body} = substr $self->{buffer}, 0, $length // 0, '';
    return \%answer;
}

sub send {
    my ($self, $text) = @_;
    local $SIG{PIPE} = 'IGNORE';

    syswrite $self->{socket}, $text;
    return;
}

# Waits for more.  At the end of the connection, or if it is reset, closes it,
# or the server would wait for that.
sub fill {
    my ($self, $seconds) = @_;

    IO::Select->new($self->{socket})->can_read($seconds)
        or die "nothing came in $seconds s\n";
    my $n = sysread $self->{socket}, $self->{buffer}, 65536,
        length $self->{buffer};
    if (!$n) {
        $self->{eof} = 1;
        close $self->{socket};
    }
    return;
}

sub line {
    my ($self, $seconds) = @_;

    while ($self->{buffer} !~ /\n/) {
        return if $self->{eof};
        $self->fill($seconds);
    }
    $self->{buffer} =~ s/^(.*?)\r?\n//;
    return $1;
}

# The line that matches; what comes before it is dropped.
sub line_like {
    my ($self, $pattern, $seconds) = @_;

    while (defined(my $line = $self->line($seconds))) {
        return $line if $line =~ $pattern;
    }
    return;
}

sub rest {
    my ($self, $seconds) = @_;
    my $deadline = time + $seconds;

    while (!$self->{eof}) {
        my $left = $deadline - time;
        $self->fill($left > 0 ? $left : 0);
    }
    return $self->{buffer};
}

# All of them up to EOF, each as it comes: a server that closes a connection
# waits for its client to do the same.
sub finish {
    my ($class, $seconds, @clients) = @_;
    my $deadline = time + $seconds;

    while (my @open = grep { !$_->{eof} } @clients) {
        my %by_socket = map { $_->{socket} => $_ } @open;
        my $left      = $deadline - time;
        my @ready     = IO::Select->new(map { $_->{socket} } @open)
            ->can_read($left > 0 ? $left : 0)
            or die @open . " connections did not end in $seconds s\n";

        $by_socket{$_}->fill(0) for @ready;
    }
    return;
}

sub gone {
    my ($self, $seconds) = @_;
    return eval { $self->rest($seconds); 1 };
}

1;
