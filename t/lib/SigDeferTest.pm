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


# What the tests have in common.  To be used before Apache::Test, which finds
# its configuration in the working directory:
#
#     use FindBin;
#     use lib "$FindBin::Bin/../lib";
#     use SigDeferTest;
#     use Apache::Test '-withtestmore';

package SigDeferTest;

use strict;
use warnings;

use Exporter       qw(import);
use File::Temp     ();
use FindBin        ();

BEGIN {
    chdir "$FindBin::Bin/../.." or die "$FindBin::Bin/../..: $!\n";
}

use Apache::Test ();

# Two habits of Apache::Test that do not suit us.  It asks apxs and httpd anew
# in each test what they are, though the tree was configured with the answers.
# And it sends diagnostics to stdout, for tests that run inside httpd; prove
# shows only what comes on stderr.
BEGIN {
    no warnings 'redefine';
    *Apache::Test::config          = \&Apache::Test::basic_config;
    *Apache::Test::test_pm_refresh = sub { return };
}

BEGIN {
    unshift @INC, Apache::Test::vars('src_dir') . '/scripts';
}

use Client       ();
use LogWatch     ();
use PrivateHttpd ();
use Test::More   ();
use TestServer   ();

our @EXPORT = qw(children_of configtest error_log fetch has_php installed
    is_builtin is_running languages module_file mpm need_child_signals
    need_modules need_sigdefer need_threaded no_crash port probe proc_status replaced server
    variants wait_until);

use constant {
    ANSWER_DEADLINE => 15,
    TEST_DEADLINE   => 120,
};

# However a test ends, the servers that it has started end with it.
$SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);
$SIG{ALRM} = sub { die "the test takes more than ", TEST_DEADLINE, " s\n" };
alarm TEST_DEADLINE;

*wait_until = \&PrivateHttpd::wait_until;

# --- servers --------------------------------------------------------------

sub mpm  { return Apache::Test::config()->{mpm} }
sub port { return Apache::Test::vars('port') }

sub server { return TestServer->new(@_) }

sub error_log {
    return LogWatch->new(Apache::Test::vars('t_logs') . '/error_log');
}

# The file that mod_NAME is loaded from, if the server of the suite has it and
# does not have it built in.
sub module_file {
    my ($name) = @_;
    my $file = Apache::Test::config()->{modules}{"mod_$name.c"};

    return $file && $file =~ m{/} ? $file : undef;
}

sub load_line {
    my ($name) = @_;
    my $file = module_file($name);

    return $file ? "LoadModule ${name}_module \"$file\"\n" : '';
}

# Whether the module is part of httpd itself.
sub is_builtin { return !module_file('sigdefer') }

# For the plan: the module itself and both builds of the probe.
sub need_sigdefer {
    return Apache::Test::need(
        qw(mod_sigdefer.c mod_probe_linked.c mod_probe_soft.c), @_);
}

# For the plan of a test that sends TERM to a child.
sub need_child_signals {
    return need_sigdefer(
        { 'TERM means nothing to a child of a threaded MPM' =>
                mpm() eq 'prefork' }, @_);
}

# For the plan of a test of the MPM that is ours.
sub need_threaded {
    return Apache::Test::need(
        { 'this MPM is one of httpd itself' => mpm() eq 'threaded' }, @_);
}

sub has_php {
    my $modules = Apache::Test::config()->{modules};
    return scalar grep { /^mod_php/ } keys %$modules;
}

# Where the module mod_NAME is, or NAME if that is its file; there it lies
# whether the server of the suite has it or not.
sub installed {
    my ($name) = @_;
    my $apxs   = Apache::Test::vars('apxs');
    my $dir    = `$apxs -q LIBEXECDIR` =~ s/\n//r;
    my ($file) = grep { -e } map { "$dir/$_.so" } "mod_$name", $name;
    return $file // '';
}

# For the plan of a test that loads them.
sub need_modules {
    return map { +{ "mod_$_ is not installed" => installed($_) } } @_;
}

# Those of the languages, and of what runs CGI programs, that there are.
sub languages {
    return grep { $_ eq 'php' ? has_php() : module_file($_) }
        qw(cgi cgid lua perl php);
}

# Whether httpd takes a configuration with these lines, and what it says about
# it.  sigdefer => 0 leaves the module out, options are added to httpd's,
# wrapper is a program that runs it.
sub configtest {
    my ($lines, %arg) = @_;
    my $file = File::Temp->new(TEMPLATE => 'sigdefer-conf-XXXXXX',
        TMPDIR => 1);

    print {$file} 'ServerRoot "', Apache::Test::vars('serverroot'), "\"\n",
        load_line('mpm_' . mpm()),
        $arg{sigdefer} // 1 ? load_line('sigdefer') : (),
        "ServerName localhost\n", "Listen 127.0.0.1:1\n", "$lines\n";
    $file->flush;
    my $command = join ' ', $arg{wrapper} // (), Apache::Test::vars('httpd'),
        "-t -f $file", $arg{options} // ();
    open my $httpd, '-|', "$command 2>&1" or die "httpd: $!\n";
    my $output = do { local $/; <$httpd> };
    return (scalar close $httpd, $output);
}

# --- questions ------------------------------------------------------------

sub variants { return qw(linked soft) }

# What a command of the probe answers, by name.
sub probe {
    my ($variant, $command, $port) = @_;
    my $body = fetch("/probe-$variant/$command", $port);

    return { map { /^([^:]+):\s(.*)$/ ? ($1 => $2) : () } split /\n/, $body };
}

# The body of an answer, which must come in full.
sub fetch {
    my ($path, $port) = @_;
    my $answer = Client->new($port // port())->get($path)
        ->rest(ANSWER_DEADLINE);
    my ($status, $body) = $answer =~ m{^HTTP/1\.\d (\d+) .*?\r\n\r\n(.*)$}s
        or die "no answer to $path\n";

    $status == 200 or die "$path: status $status\n";
    return $body;
}

# --- processes ------------------------------------------------------------

# Neither gone nor a zombie.
sub is_running {
    my ($pid) = @_;
    my $process = PrivateHttpd::process($pid);
    return $process && $process->{state} ne 'Z';
}

# Process ids and states of a process's children.
sub children_of {
    my ($pid) = @_;
    return map { $_->{id} =~ /^(\d+)/; ($1 => $_->{state}) }
        grep { $_->{parent} == $pid }
        map  { PrivateHttpd::process($_) }
        map  { m{/(\d+)$} } glob '/proc/[0-9]*';
}

# /proc/PID/status by name.
sub proc_status {
    my ($pid) = @_;
    return { map { /^(\w+):\s*(.*)$/ }
            split /\n/, PrivateHttpd::slurp("/proc/$pid/status") };
}

# Two tests of what follows when those who served at a signal to the parent have
# finished: they leave within some seconds, and then everybody else does after a
# TERM, or else new ones serve a page.
sub replaced {
    my ($server, $signal, $seconds, $page, $who, @pids) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    Test::More::ok(wait_until($seconds,
            sub { !grep { is_running($_) } @pids }),
        "$who: then those who have served leave");
    return $signal eq 'TERM'
        ? Test::More::ok($server->nobody_left($seconds),
        "$who: and so does everybody else")
        : Test::More::ok(eval { fetch($page, $server->port) },
        "$who: and others serve");
}

# A test: no child was ended by a signal.
sub no_crash {
    my ($log) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Test::More::is_deeply([$log->lines(qr/exit signal/)], [],
        'no child was ended by a signal');
}

1;
