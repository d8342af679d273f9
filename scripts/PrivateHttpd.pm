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

# An httpd of our own: a ServerRoot under build/, a configuration written from
# parameters, nothing of the machine's own httpd touched or needed but its
# binaries.
#
#     my $httpd = PrivateHttpd->new(
#         name     => 'run',            # ServerRoot is build/run
#         mpm      => 'prefork',        # or worker, event, threaded
#         port     => 8080,             # on 127.0.0.1
#         modules  => ['lua', 'php', 'x=/path/mod_x.so'],
#         sigdefer => '/path/mod_sigdefer.so',    # or undef: stock; if it is
#                                           # built in: whether it is on
#         pages    => ['/path/dir'],    # contents copied to DocumentRoot
#         workers  => 32,               # most requests served at a time
#         wrapper  => ['nice'],         # a program that runs httpd
#         conf     => "CustomLog logs/access_log common\n",
#     );
#     $httpd->start;            # dies with the reason, port in use among them
#     print $httpd->url('/index.html'), "\n";
#     $httpd->stop;
#
# Everything but name and port has a default.  Every method that fails dies
# with a message that ends in a newline.
#
#   start              write_root and launch
#   write_root         writes the ServerRoot anew: configuration, pages, no logs
#   launch             runs httpd in the foreground of a session of its own and
#                      returns once it answers; again after a stop, if wanted
#   spawn              runs httpd and does not wait
#   stop               TERM; returns once it and its children are gone, KILLs
#                      them if they do not go within 20 s (and dies).  An
#                      object that goes out of scope kills its httpd: let %SIG
#                      handlers exit, so that it does.
#   detach             leave httpd running when the object goes
#   send_signal(NAME)  to the parent: HUP restart, USR1 graceful, TERM stop
#   restart(NAME, SUB, SECONDS)
#                      HUP or USR1, and proof that the restart took place, and
#                      no child from before is left after SECONDS (30); SUB, if
#                      given, is called right before the signal is sent
#   wait_gone(SECONDS) true once the parent is gone
#   pid, alive         of the parent
#   children           ids of the parent's children
#   left(IDS)          those of the ids whose processes are left
#   url(PATH), get(PATH), status, generation
#   error_log          its text; error_log_count(qr/.../) counts lines
#   root, docroot, conf_file
#
# PrivateHttpd::exit_on(NAMES) has these signals end the program in order.
#
# PrivateHttpd::wait_until(SECONDS, sub {...}) polls a condition; it returns
# what the sub returned, or nothing when time is up.
#
# Loaded besides the modules asked for: the MPM and @BASE_MODULES below.
# Files *.lua, *.php and *.cgi are run if lua, php, cgi or cgid is among the
# modules.  HTTPD in the environment names the binary, APXS the
# program that knows where its modules are.  conf may override what
# is configured, except for the error log, in which start looks for the end of
# the start-up.
#
# As root, the children run as www-data (or its like) and must be able to read
# the pages; they are copied for that reason, and where the user cannot reach
# build/, the ServerRoot is a temporary directory instead.

package PrivateHttpd;

use strict;
use warnings;

use Cwd qw(abs_path);
use Errno qw(EADDRINUSE);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use File::Temp ();
use HTTP::Tiny ();
use IO::Socket::INET ();
use POSIX qw(setsid WNOHANG);
use Time::HiRes qw(sleep time);

my $REPO = dirname(dirname(abs_path(__FILE__)));

# What Debian and others build in is left out of the configuration.
my @BASE_MODULES = qw(unixd log_config authz_core mime dir alias env headers
    status);
my @HTTPD_PLACES = qw(/usr/sbin/apache2 /usr/sbin/httpd
    /usr/local/apache2/bin/httpd);
my @MODULE_PLACES = qw(/usr/lib/apache2/modules /usr/lib64/httpd/modules
    /usr/local/apache2/modules);
my @CHILD_USERS = qw(www-data apache httpd nobody);

my %HANDLERS = (
    lua  => "AddHandler lua-script .lua\n",
    php  => "<FilesMatch \"\\.php\$\">\n"
        . "    SetHandler application/x-httpd-php\n</FilesMatch>\n",
    cgi  => "AddHandler cgi-script .cgi\n",
    cgid => "AddHandler cgi-script .cgi\n",
);

use constant {
    START_DEADLINE   => 20,
    STOP_DEADLINE    => 20,
    KILL_DEADLINE    => 10,
    RESTART_DEADLINE => 30,
    POLL_INTERVAL    => 0.01,
};

sub new {
    my ($class, %arg) = @_;
    my $self = bless {
        mpm     => 'prefork',
        modules => [],
        pages   => [],
        wrapper => [],
        workers => 32,
        conf    => '',
        %arg,
        owner => $$,
    }, $class;

    defined $self->{name} && $self->{name} =~ /^[\w-]+$/
        or die "PrivateHttpd: no proper name\n";
    defined $self->{port} && $self->{port} =~ /^\d+$/
        && $self->{port} >= 1 && $self->{port} <= 65535
        or die "PrivateHttpd: port must be a number from 1 to 65535\n";
    $self->{mpm} =~ /^(?:prefork|worker|event|threaded)$/
        or die "PrivateHttpd: MPM must be prefork, worker, event or threaded,"
        . " not '$self->{mpm}'\n";
    $self->{httpd}    = find_httpd();
    $self->{builtin}  = builtin_modules($self->{httpd});
    !defined $self->{sigdefer} || $self->{builtin}{sigdefer}
        || -r $self->{sigdefer}
        or die "PrivateHttpd: $self->{sigdefer}: $!\n";
    $self->{user}     = $> == 0 ? find_child_user() : undef;
    $self->{root}     = $self->make_root;
    $self->{docroot}  = "$self->{root}/htdocs";
    $self->{agent}    = HTTP::Tiny->new(
        timeout    => 15,
        keep_alive => 0,
        proxy      => undef,
        http_proxy => undef,
    );
    return $self;
}

sub pid       { return $_[0]->{pid} }
sub root      { return $_[0]->{root} }
sub docroot   { return $_[0]->{docroot} }
sub conf_file { return "$_[0]->{root}/conf/httpd.conf" }
sub url       { return "http://127.0.0.1:$_[0]->{port}$_[1]" }
sub detach    { $_[0]->{detached} = 1; return }

# exit, not die, which HTTP::Tiny would catch: objects clean up.
sub exit_on {
    for my $signal (@_) {
        $SIG{$signal} = sub { warn "ended by SIG$signal\n"; exit 1 };
    }
    return;
}

sub wait_until {
    my ($seconds, $condition) = @_;
    my $deadline = time + $seconds;

    while (1) {
        my $result = $condition->();
        return $result if $result;
        return if time >= $deadline;
        sleep POLL_INTERVAL;
    }
}

# --- what there is on the machine -----------------------------------------

sub find_httpd {
    return $ENV{HTTPD} if $ENV{HTTPD};
    my ($httpd) = grep { -x } @HTTPD_PLACES;
    return $httpd // die "no httpd found; set HTTPD to its path\n";
}

sub builtin_modules {
    my ($httpd) = @_;

    open my $list, '-|', $httpd, '-l' or die "$httpd: $!\n";
    my %builtin = map { /^\s*(?:mod_)?(\w+)\.c$/ ? ($1 => 1) : () } <$list>;
    close $list or die "$httpd -l failed\n";
    return \%builtin;
}

sub find_child_user {
    for my $user (@CHILD_USERS) {
        my ($uid, $gid) = (getpwnam $user)[2, 3];
        next if !defined $uid;
        return { name => $user, uid => $uid, gid => $gid,
            group => scalar getgrgid $gid };
    }
    die "no user for httpd's children: none of @CHILD_USERS exists\n";
}

sub module_dir {
    my ($self) = @_;
    my ($dir) = grep { -d }
        $ENV{APXS} ? `$ENV{APXS} -q LIBEXECDIR` =~ /(.+)/ : (), @MODULE_PLACES;

    if (!$dir) {
        my $prefix = dirname(dirname($self->{httpd}));
        $dir = "$prefix/modules";
        -d $dir or die "no directory of httpd's modules found\n";
    }
    return $dir;
}

# --- the ServerRoot -------------------------------------------------------

sub make_root {
    my ($self) = @_;
    my $root = "$REPO/build/$self->{name}";
    my $mask = umask 022;

    make_path($root, { error => \my $failed });
    @$failed and die "cannot make $root: ", values %{ $failed->[0] }, "\n";
    if ($self->{user} && !child_reaches($self->{user}, $root)) {
        $self->{temp} = File::Temp->newdir('sigdefer-XXXXXX', TMPDIR => 1);
        $root = "$self->{temp}";
        chmod 0755, $root or die "$root: $!\n";
    }
    umask $mask;
    return $root;
}

# Tried rather than computed: ACLs and capabilities count, too.
sub child_reaches {
    my ($user, $dir) = @_;
    my $pid = fork // die "fork: $!\n";

    if (!$pid) {
        $) = "$user->{gid} $user->{gid}";
        POSIX::setgid($user->{gid});
        POSIX::setuid($user->{uid});
        POSIX::_exit(-x "$dir/." ? 0 : 1);
    }
    waitpid $pid, 0;
    return $? == 0;
}

sub write_root {
    my ($self) = @_;

    # The files may be those of an httpd that was left running.
    $self->check_port;
    my $mask = umask 022;
    for my $dir (map { "$self->{root}/$_" } qw(conf logs htdocs)) {
        remove_tree($dir);
        make_path($dir);
    }
    for my $pages (@{ $self->{pages} }) {
        run('cp', '-R', "$pages/.", $self->{docroot});
    }
    run('chmod', '-R', 'a+rX', $self->{docroot});
    open my $out, '>', $self->conf_file or die $self->conf_file, ": $!\n";
    print {$out} $self->conf_text;
    close $out or die $self->conf_file, ": $!\n";
    umask $mask;
    return;
}

sub run {
    my (@command) = @_;
    system(@command) == 0 or die "failed: @command\n";
    return;
}

sub conf_text {
    my ($self) = @_;
    my %seen;
    my @modules = grep { !$seen{$_}++ } @BASE_MODULES;
    my @wanted = grep { !$seen{$_}++ } @{ $self->{modules} };
    my $user = $self->{user};

    # mod_sigdefer first: a module linked against it must come later.
    return join '',
        "ServerRoot \"$self->{root}\"\n",
        $self->load_line("mpm_$self->{mpm}"),
        (map { $self->load_line($_) } @modules),
        $self->sigdefer_line,
        (map { $self->load_line($_) } @wanted),
        "Listen 127.0.0.1:$self->{port}\n",
        "ServerName localhost\n",
        "DefaultRuntimeDir logs\n",
        "PidFile logs/httpd.pid\n",
        "ErrorLog logs/error_log\n",
        "LogLevel notice\n",
        $user ? "User $user->{name}\nGroup $user->{group}\n" : '',
        $self->mpm_text,
        "TypesConfig /dev/null\n",
        "AddType text/html .html\n",
        "AddType text/plain .txt\n",
        "DirectoryIndex index.html\n",
        "DocumentRoot \"$self->{docroot}\"\n",
        "<Directory \"$self->{docroot}\">\n",
        "    Options ExecCGI\n",
        "    Require all granted\n",
        "</Directory>\n",
        "<Location \"/server-status\">\n",
        "    SetHandler server-status\n",
        "</Location>\n",
        (map { $HANDLERS{$_} // '' } @wanted),
        $self->{conf};
}

sub sigdefer_line {
    my ($self) = @_;
    my $file = $self->{sigdefer};

    return $file ? '' : "SigDefer Off\n" if $self->{builtin}{sigdefer};
    return $file ? $self->load_line("sigdefer=$file") : '';
}

# The MPM of ours, which is not where httpd's modules are.
sub threaded_module { return "$REPO/build/mod_mpm_threaded.so" }

sub load_line {
    my ($self, $module) = @_;
    my ($name, $file) = $module =~ /^(\w+)=(.+)$/;

    if ($file) {
        return "LoadModule ${name}_module \"$file\"\n";
    }
    my $builtin = $module =~ /^mpm_(\w+)$/ ? $1 : $module;
    return '' if $self->{builtin}{$builtin};
    my $dir = $self->module_dir;
    if ($module eq 'mpm_threaded') {
        ($name, $file) = ($module, threaded_module());
        -e $file or die "$file is missing: make it first\n";
    }
    elsif ($module eq 'php') {
        ($file) = reverse sort glob "$dir/libphp*.so";
        $file or die "mod_php is not installed in $dir\n";
        $name = $file =~ /libphp(7)\.so$/ ? "php$1" : 'php';
    }
    else {
        ($name, $file) = ($module, "$dir/mod_$module.so");
        -e $file or die "mod_$module is not installed in $dir\n";
    }
    return "LoadModule ${name}_module \"$file\"\n";
}

# As many processes as the limit from the start, so that the number served at
# a time does not depend on how fast the MPM makes more of them.
sub mpm_text {
    my ($self) = @_;
    my $workers = $self->{workers};

    if ($self->{mpm} eq 'prefork') {
        return "ServerLimit $workers\nMaxRequestWorkers $workers\n"
            . "StartServers $workers\nMinSpareServers 1\n"
            . "MaxSpareServers $workers\n";
    }
    my $threads = $workers < 16 ? $workers : 16;
    my $servers = int(($workers + $threads - 1) / $threads);
    my $most    = $servers * $threads;

    # Room for processes of an older generation that finish their work.
    my $limit = 4 * $servers;
    return "ServerLimit $limit\nThreadLimit $threads\n"
        . "ThreadsPerChild $threads\nMaxRequestWorkers $most\n"
        . "StartServers $servers\nMinSpareThreads 1\n"
        . "MaxSpareThreads $most\n";
}

# --- start and stop -------------------------------------------------------

sub start {
    my ($self) = @_;

    $self->write_root;
    return $self->launch;
}

sub launch {
    my ($self) = @_;

    $self->spawn;
    wait_until(START_DEADLINE, sub { !$self->alive || $self->ready })
        && $self->alive
        or $self->fail('httpd did not start');
    return $self;
}

sub spawn {
    my ($self) = @_;

    $self->check_port;
    $self->{launched} = $self->times_ready;
    $self->{pid} = fork // die "fork: $!\n";
    if (!$self->{pid}) {
        $self->exec_httpd;
    }
    $self->{session} = $self->{pid};
    return;
}

# Not returned from.  In the foreground httpd ends its whole process group
# when it stops, hence the session.
sub exec_httpd {
    my ($self) = @_;

    @SIG{qw(INT TERM HUP)} = ('DEFAULT') x 3;
    setsid();
    open STDIN, '<', '/dev/null';
    open STDOUT, '>', "$self->{root}/logs/startup_log";
    open STDERR, '>&', \*STDOUT;
    my @httpd = ($self->{httpd}, '-f', $self->conf_file, '-DFOREGROUND');
    { exec @{ $self->{wrapper} }, @httpd };
    print STDERR "$self->{httpd}: $!\n";
    POSIX::_exit(127);
}

# Does not listen: a client that waits for httpd would get connected.
sub check_port {
    my ($self) = @_;

    IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $self->{port},
        Proto     => 'tcp',
        ReuseAddr => 1,
    ) and return;
    $! == EADDRINUSE
        and die "port $self->{port} is in use by another program\n";
    die "port $self->{port}: $!\n";
}

# It answers, and the parent has started all children.
sub ready {
    my ($self) = @_;

    return $self->times_ready > $self->{launched}
        && $self->get('/server-status?auto')->{success};
}

# The parent logs this once it has started its children.
sub times_ready {
    my ($self) = @_;
    return $self->error_log_count(qr/resuming normal operations/);
}

sub alive {
    my ($self) = @_;

    return if !$self->{pid};
    if (waitpid($self->{pid}, WNOHANG) == 0) {
        return 1;
    }
    delete $self->{pid};
    return;
}

sub fail {
    my ($self, $what) = @_;
    my @lines = (split /^/m,
        slurp("$self->{root}/logs/startup_log") . $self->error_log);

    splice @lines, 0, -10 if @lines > 10;
    $self->kill_all;
    die "$what\n", @lines;
}

sub send_signal {
    my ($self, $name) = @_;

    $self->alive && kill $name, $self->{pid}
        or $self->fail("httpd is gone, cannot send it $name");
    return;
}

sub wait_gone {
    my ($self, $seconds) = @_;
    return wait_until($seconds, sub { !$self->alive });
}

sub stop {
    my ($self) = @_;

    return if !$self->alive;
    $self->send_signal('TERM');
    wait_until(STOP_DEADLINE, sub { !$self->alive && !$self->members })
        or $self->fail('httpd did not stop in ' . STOP_DEADLINE . ' s');
    delete $self->{session};
    return;
}

# The whole session: children outlive a parent that is killed.
sub kill_all {
    my ($self) = @_;

    return if !$self->{session};
    kill '-KILL', $self->{session} if $self->members;
    wait_until(KILL_DEADLINE, sub { !$self->alive && !$self->members })
        or warn "httpd $self->{session} cannot be killed\n";
    delete $self->{session};
    return;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);

    $self->{owner} == $$ && !$self->{detached} and $self->kill_all;
    return;
}

# --- proven restarts ------------------------------------------------------

# Restart with a signal, and return once it is proven to have taken place:
# the scoreboard's generation has grown by exactly one, the parent is the same
# process, and no child seen just before the signal is left.
sub restart {
    my ($self, $signal, $before_signal, $seconds) = @_;
    my $before = $self->generation;
    my @old    = $self->children;
    my @left;
    my $now;

    $seconds //= RESTART_DEADLINE;
    $before_signal->() if $before_signal;
    $self->send_signal($signal);
    my $deadline = time + $seconds;
    wait_until($seconds, sub {
        $now = $self->generation_if_up;
        return !$self->alive || defined $now && $now != $before;
    }) or $self->fail("$signal: the generation is still $before after "
        . "$seconds s");
    $self->alive or $self->fail("$signal: httpd has ended");
    $now == $before + 1
        or $self->fail("$signal: generation $before became $now");
    wait_until($deadline - time, sub { !(@left = $self->left(@old)) })
        or $self->fail("$signal: " . @left . ' of ' . @old . ' children from'
        . " before are left after $seconds s");
    return;
}

# As "PID:START TIME", so that a number used anew is not taken for the process
# that had it before.
sub children {
    my ($self) = @_;
    return map { $_->{id} } grep { $_->{parent} == $self->{pid} } processes();
}

# A dead child counts until the parent has collected it, and logged its end.
# Orphans are collected by a process that is none of ours and may be slow.
sub left {
    my ($self, @ids) = @_;

    return grep {
        my $id = $_;
        my $process = process($id =~ /^(\d+)/);
        $process && $process->{id} eq $id
            && ($process->{state} ne 'Z'
                || $self->{pid} && $process->{parent} == $self->{pid});
    } @ids;
}

# All that run in the session that we made for httpd.
sub members {
    my ($self) = @_;

    return grep { $_->{session} == $self->{session} && $_->{state} ne 'Z' }
        processes();
}

sub processes {
    return map { process(m{/(\d+)$}) } glob '/proc/[0-9]*';
}

# Nothing if it has gone meanwhile.
sub process {
    my ($pid) = @_;
    my ($rest) = slurp("/proc/$pid/stat") =~ /^\d+ \(.*\) (.*)$/s or return;
    my ($state, $parent, $session, $start) = (split ' ', $rest)[0, 1, 3, 19];

    return { id => "$pid:$start", state => $state, parent => $parent,
        session => $session };
}

# --- questions to the server ----------------------------------------------

sub get {
    my ($self, $path) = @_;
    return $self->{agent}->get($self->url($path));
}

# What server-status?auto says, as a hash; empty if it does not answer.
sub status {
    my ($self) = @_;
    my $answer = $self->get('/server-status?auto');

    return if !$answer->{success};
    return map { /^(\w+): (.*)$/ ? ($1 => $2) : () }
        split /\n/, $answer->{content};
}

# That of the child that answers: nobody knows of a new one sooner.
sub generation_if_up {
    my ($self) = @_;
    my %status = $self->status;
    return $status{ParentServerMPMGeneration};
}

sub generation {
    my ($self) = @_;
    return $self->generation_if_up
        // $self->fail('server-status does not answer');
}

sub error_log {
    my ($self) = @_;
    return slurp("$self->{root}/logs/error_log");
}

sub error_log_count {
    my ($self, $pattern) = @_;
    return scalar grep { /$pattern/ } split /^/m, $self->error_log;
}

# A process or a log may be gone by the time that it is read.
sub slurp {
    my ($file) = @_;

    open my $in, '<', $file or return '';
    local $/;
    return scalar(<$in>) // '';
}

1;
