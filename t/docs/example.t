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

# The examples of docs/authors.md, compiled as it says and run: they do what it
# tells of them, with mod_sigdefer and, where that can be, without it.

use strict;
use warnings;

use File::Copy qw(copy);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use AcceptTest;
use Apache::Test '-withtestmore';

use constant SIGNALS => 5;

plan tests => 16, need_sigdefer();

my $build = File::Temp->newdir('sigdefer-example-XXXXXX', TMPDIR => 1);

example_with();
example_without();
accept_lock();

# --- mod_example ----------------------------------------------------------

sub example_with {
    my $server = example_server(sigdefer => 1);

    is ask($server, '?home')->{sections}, 'on', 'sections defer';
    like answer($server, '?nowhere'), qr{^HTTP/1\.\d 404 },
        'a jump out of a section';
    my $found = ask($server, '?news');
    is $found->{depth}, 0, 'the section has been left';
    is "$found->{home} $found->{news} $found->{sum}", '1 1 2',
        'what is counted is right';
    is scalar $server->log->lines(qr/sigdefer: S01[12]/), 0,
        'and every section is paired';
SKIP: {
        skip 'no thread has USR2 open', 2 if mpm() ne 'prefork';
        $found = signalled($server);
        cmp_ok $found->{whole}, '>', 0, 'a handler runs, when it may';
        is $found->{torn}, 0, 'and finds all whole';
    }
    no_crash($server->log);
}

sub example_without {
SKIP: {
        skip 'the module is always there', 3 if is_builtin();
        my $server = example_server(sigdefer => 0);

        is ask($server, '?home')->{sections}, 'absent',
            'it runs without mod_sigdefer, and knows it';
        like answer($server, '?nowhere'), qr{^HTTP/1\.\d 404 },
            'the jump does no harm there, either';
        skip 'no thread has USR2 open', 1 if mpm() ne 'prefork';
        cmp_ok signalled($server)->{torn}, '>', 0,
            'but a handler finds what is half done';
    }
}

sub example_server {
    my (%arg) = @_;

    return server(%arg, workers => 1, listeners => 1, probe => undef,
        modules => [ 'example=' . compile('mod_example') ],
        conf    => "<Location \"/example\">\n    SetHandler example\n"
            . "</Location>\n");
}

# What the page shows after a visit that is signalled all the time; with one
# child in prefork there is no doubt who it is.
sub signalled {
    my ($server) = @_;
    my ($pid)  = $server->child_pids;
    my $client = Client->new($server->port)->get('/example?home&1000');

    for (1 .. SIGNALS) {
        wait_until(0.1, sub { 0 });
        kill USR2 => $pid;
    }
    return figures($client->rest(15));
}

sub answer {
    my ($server, $query) = @_;
    return Client->new($server->port)->get("/example$query")->rest(15);
}

sub ask {
    my ($server, $query) = @_;
    return figures(answer($server, $query));
}

sub figures {
    my ($answer) = @_;
    return { $answer =~ /^(\w+): (\S+)$/mg };
}

# --- mod_example_lock -----------------------------------------------------

sub accept_lock {
    my $file = compile('mod_example_lock');
    my $conf = "LoadModule example_lock_module \"$file\"\n"
        . "Listen 127.0.0.1:2\nSigDeferAcceptLock yielding "
        . (mpm() eq 'event' ? 'prefork' : mpm());

    like +(configtest($conf, options => '-D DUMP_SIGDEFER'))[1],
        mpm() eq 'event'
        ? qr/^SigDeferAcceptLock: exclusive \(auto/m
        : qr/^SigDeferAcceptLock: yielding \(as configured\)$/m,
        'a lock of one\'s own can be configured';
    like +(configtest("$conf\nSigDeferAcceptLock nosuch"))[1],
        qr/legal are .*\byielding\b/, 'and is named among the legal ones';
SKIP: {
        skip 'this MPM takes no accept lock', 3 if mpm() eq 'event';
        my $server = accept_server(
            modules => ["example_lock=$file"],
            conf    => "SigDeferAcceptLock yielding\n",
        );

        is lock_name($server), 'yielding', 'the MPM takes it';
        kill KILL => holder($server);
        answers_on_all($server, 5, 'the death of its holder stops nobody');
        is recoveries($server), 1, 'and is noticed';
    }
}

# --- both -----------------------------------------------------------------

# As docs/authors.md says; the file of the module.
sub compile {
    my ($name) = @_;
    my $source = Apache::Test::vars('src_dir');
    my $apxs   = Apache::Test::vars('apxs');

    copy("$source/docs/example/$name.c", "$build/$name.c")
        or die "$name.c: $!\n";
    my $output = `cd $build && $apxs -c -I $source $name.c 2>&1`;
    die $output if $?;
    return "$build/.libs/$name.so";
}
