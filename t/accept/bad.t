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


# Locks that cannot be had: lines that are wrong in themselves, and mechanisms
# that do not work here.  httpd -t fails, and says which line, what is wrong and
# what is legal.  What auto does then.  What becomes of a lock that fails later.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use AcceptTest;
use Apache::Test '-withtestmore';

use File::Temp ();

my $legal   = qr/legal are default, auto, futex, pthread, fcntl\[:PATH\]/;
my $line    = 'SigDeferAcceptLock';
my $preload = Apache::Test::vars('src_dir') . '/build/t/unlucky.so';
my $file    = File::Temp->new(TEMPLATE => 'sigdefer-file-XXXXXX', TMPDIR => 1);
my $no_lock = 'env UNLUCKY=fcntl LD_PRELOAD=' . $preload;

my @wrong = (
    [ "$line"                => qr/$line: no mechanism is given; $legal/ ],
    [ "$line flock"          => qr/$line: 'flock' is not known; $legal/ ],
    [ "$line posixsem"       => qr/$line: 'posixsem' is not known; $legal/ ],
    [ "$line futex2"         => qr/$line: 'futex2' is not known; $legal/ ],
    [ "$line \"\""           => qr/$line: no mechanism is given; $legal/ ],
    [ "$line exclusive"      =>
            qr/$line exclusive on .*: MPM \w+ cannot be exclusive; $legal$/m ],
    [ "$line exclusive event worker" =>
            qr/$line: MPM worker cannot be exclusive; $legal$/m ],
    [ "$line exclusive:/tmp" => qr/$line: 'exclusive:.*: exclusive takes no/ ],
    [ "$line futex:/tmp"     => qr/$line: 'futex:\/tmp': futex takes no path/ ],
    [ "$line auto:/tmp"      => qr/$line: 'auto:\/tmp': auto takes no path/ ],
    [ "$line fcntl:"         => qr/$line: 'fcntl:': the path is missing/ ],
    [ "$line futex prefrok"  =>
            qr/'prefrok' is not known; legal are prefork, worker, event, threaded/ ],
    [ "$line futex event"    =>
            qr/MPM event takes no .*; legal are default, auto, exclusive/ ],
    [ "$line fcntl prefork event" =>
            qr/$line: MPM event takes no accept lock/ ],
    [ "$line futex\n$line fcntl" =>
            qr/^$line: fcntl for all MPMs contradicts "$line futex" on line/m ],
    [ "$line futex worker\n$line pthread prefork worker" =>
            qr/pthread for worker contradicts "$line futex worker" on line/ ],
    [ "$line fcntl:/a worker\n$line fcntl:/b worker" => qr/contradicts/ ],
    [ "$line default\n$line auto" => qr/contradicts/ ],
    [ "<VirtualHost *:1>\n$line futex\n</VirtualHost>" => qr/cannot occur/ ],
    [ "<Directory />\n$line futex\n</Directory>" =>
            qr/cannot occur|not allowed/ ],
);

# A folder of locks that is missing, is none, may not be written, or lies where
# there are no locks (a diskless host): told when the configuration is tested.
# The parent makes the file, and unlinks it; what the children's user may do in
# the folder does not matter.
my @elsewhere = (
    [ '/nonexistent/dir' => qr/: No such file/, '' ],
    [ "$file"            => qr/: Not a directory/, '' ],
    [ '/proc'            => qr/: (?:No such|.*denied|.*not permitted)/, '' ],
    [ '/tmp'             => qr/: locks: No locks available/, $no_lock ],
);

plan tests => 2 * @wrong + 2 * @elsewhere + 1 + 2 + 2 + 3,
    need_accept_lock();

for my $row (@wrong) {
    my ($lines, $message) = @$row;
    my ($ok, $output) = configtest($lines);
    my $label = $lines =~ s/\n/ \/ /gr;

    ok !$ok, "$label: refused";
    like $output, $message, "$label: the message tells why";
}

for my $row (@elsewhere) {
    my ($path, $message, $wrapper) = @$row;
    my ($ok, $output) = configtest("$line fcntl:$path", wrapper => $wrapper);

    ok !$ok, "$path: refused";
    like $output,
        qr/$line fcntl:$path on line .* here: $path$message.*$legal/,
        "$path: the message tells why";
}

my ($ok, $output) = configtest("$line fcntl:/nonexistent "
    . (mpm() eq 'prefork' ? 'worker' : 'prefork'));
ok $ok, 'what is for another MPM is not tried' or diag $output;

# Robust mutexes are "not supported", as under some emulators.  That is an error
# where they are asked for, and no reason not to start where they are not.
my $not_robust = "env UNLUCKY=setrobust LD_PRELOAD=$preload";
($ok, $output) = configtest("$line pthread", wrapper => $not_robust);
ok !$ok, 'no robust mutexes: pthread is refused';
like $output,
    qr/$line pthread on line .*: robust mutex: .*not supported.*$legal/,
    'no robust mutexes: the message tells why';
{
    my $server = accept_server(wrapper => [ split ' ', $not_robust ]);

    is lock_name($server), 'futex', 'no robust mutexes: auto finds another';
    answers_on_all($server, 1, 'no robust mutexes: it serves');
}

# A lock that fails from some time on, always: no storm of forks.
{
    my $server = accept_server(conf => "$line pthread\n",
        wrapper => [ qw(env UNLUCKY=lock), "LD_PRELOAD=$preload" ]);
    my %seen;

    for (1 .. 400) {
        eval { Client->new($server->port)->get('/index.html')->rest(1) }
            or last;
    }
    wait_until(5, sub {
        $seen{$_} = 1 for eval { $server->child_pids };
        return !$server->alive;
    });
    cmp_ok scalar keys %seen, '<', 15, 'a lock that fails: few new children';
    my @emerg = $server->log->lines(qr/:emerg\]/);
    my %of    = map { /\[pid (\d+)/ ? ($1 => 1) : () } @emerg;
    cmp_ok scalar @emerg, '>', 0, 'a lock that fails: it is told';
    is scalar @emerg, scalar keys %of, 'a lock that fails: once a child';
}
