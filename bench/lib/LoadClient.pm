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

# bench/load, the clients that put a server under load, as an object.
#
#     my $load = LoadClient->new(
#         program => 'build/bench/load',
#         port    => 8080,
#         path    => '/index.html',
#         clients => 24,
#         end     => "END\n",        # of each body
#         tag     => 'X-Tag',        # header that tells a mark's answer
#         slot    => 1.5,            # seconds after a mark that are counted
#         keep    => 1,              # HTTP/1.1, connections are kept
#         tls     => 1,
#         count   => 1,              # requests to make; for ever if absent
#         verbose => 1,              # each failure on standard error
#     );
#     $load->await_answers(24);
#     $load->mark('1');
#     $load->await_gap;
#     my $counts = $load->finish;
#
#   mark(TAG)         measure the time from now to the first answer with TAG;
#                     returns the number of requests answered so far
#   counts            so far, as bench/load names them
#   answers(COUNTS)   how many were answered, in slots and outside of them
#   await_answers(N)  until so many have been answered in all
#   await_gap         until the mark's answer has come
#   await_end         until all of count have been made; returns the counts
#   finish            requests under way are finished first; returns the counts
#
# What is awaited in vain for 30 seconds is an error.  An object that goes out
# of scope kills its program.

package LoadClient;

use strict;
use warnings;

use IO::Handle ();
use IPC::Open2 qw(open2);
use JSON::PP qw(decode_json);
use Time::HiRes qw(sleep time);

use constant {
    ANSWER_SECONDS => 30,
    POLL_SECONDS   => 0.02,
};

sub new {
    my ($class, %arg) = @_;
    my $self = bless {}, $class;
    my @command = (
        $arg{program}, '-i',
        '-p' => $arg{port},
        '-u' => $arg{path},
        '-c' => $arg{clients},
        '-e' => $arg{end},
        $arg{tag}     ? ('-t' => $arg{tag})   : (),
        $arg{slot}    ? ('-w' => $arg{slot})  : (),
        $arg{count}   ? ('-n' => $arg{count}) : (),
        $arg{keep}    ? '-k' : (),
        $arg{tls}     ? '-s' : (),
        $arg{verbose} ? '-v' : (),
    );

    $self->{pid} = open2($self->{from}, $self->{to}, @command);
    return $self;
}

sub ask {
    my ($self, $command) = @_;

    $self->{to}->printflush("$command\n");
    return $self->read_counts;
}

sub read_counts {
    my ($self) = @_;
    my $line = readline $self->{from};

    defined $line or die "the load client has ended\n";
    return decode_json($line);
}

sub mark {
    my ($self, $tag) = @_;
    return answers($self->ask("mark $tag"));
}

sub counts {
    my ($self) = @_;
    return $self->ask('count');
}

sub answers {
    my ($counts) = @_;
    return $counts->{answered} + $counts->{outside};
}

sub await_answers {
    my ($self, $answered) = @_;

    $self->await("$answered requests are not answered",
        sub { answers($_[0]) >= $answered });
    return;
}

sub await_gap {
    my ($self) = @_;

    $self->await('no request is answered under the new configuration',
        sub { !$_[0]->{open_marks} });
    return;
}

sub await {
    my ($self, $complaint, $condition) = @_;
    my $deadline = time + ANSWER_SECONDS;

    until ($condition->($self->counts)) {
        time < $deadline
            or die "$complaint after " . ANSWER_SECONDS . " s\n";
        sleep POLL_SECONDS;
    }
    return;
}

sub finish {
    my ($self) = @_;

    close $self->{to};
    return $self->await_end;
}

sub await_end {
    my ($self) = @_;
    my $counts = $self->read_counts;

    $self->end;
    return $counts;
}

sub end {
    my ($self) = @_;

    waitpid delete $self->{pid}, 0;
    return;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);

    return if !$self->{pid};
    kill 'KILL', $self->{pid};
    $self->end;
    return;
}

1;
