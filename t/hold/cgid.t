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

# mod_cgid's daemon over restarts: what it has been asked for is answered, and
# it is gone when it is of no more use.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use POSIX ();

use constant {
    RESTARTS => 5,
    CLIENTS  => 8,
};

plan tests => 7, need_sigdefer('cgid');

my $server = server(modules => ['cgid'], workers => 32);
my $stop   = $server->root . '/stop';
unlink $stop;
my @clients = map { start_client($server->port) } 1 .. CLIENTS;

$server->restart($_ % 2 ? 'HUP' : 'USR1') for 1 .. RESTARTS;
open my $file, '>', $stop or die "$stop: $!\n";
my @said = map { scalar readline $_->{output} } @clients;
waitpid $_->{pid}, 0 for @clients;

is_deeply [grep { !/^all of [1-9]/ } @said], [],
    'each client had all of its requests answered';
ok wait_until(5, sub { daemons() == 1 }), 'one daemon is left';
is scalar(sockets()), 1, 'and one socket';
is_deeply [$server->log->lines(qr/long lost child/)], [],
    'the server knows whom it collects';
no_crash($server->log);

$server->stop;
is scalar(sockets()), 0, 'after a stop no socket is left';
ok wait_until(5, sub { daemons() == 0 }), 'and no daemon';

# Sockets that listen under the name that mod_cgid gives, in this server.
sub daemons {
    my $root = $server->root;

    return grep { m{ 00010000 .* \Q$root\E/.*cgisock} } split /^/m,
        PrivateHttpd::slurp('/proc/net/unix');
}

sub sockets {
    my @found = glob $server->root . '/logs/cgisock*';

    return @found;
}

# Runs a program, again and again.
sub start_client {
    my ($port) = @_;
    my $pid = open(my $output, '-|') // die "fork: $!\n";

    return { pid => $pid, output => $output } if $pid;
    my ($asked, $answered) = (0, 0);
    until (-e $stop) {
        $asked++;
        $answered += eval {
            Client->new($port)->get('/status.cgi')->rest(20) =~ /^SigCgt:/m;
        } || 0;
    }
    print $asked == $answered ? "all of $asked\n" : "$answered of $asked\n";
    close STDOUT;
    POSIX::_exit(0);
}
