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

# Many restarts of a server under load, of every kind: nothing may be lost, no
# child may crash, and nothing may be left over.
#
#     bench/soak.pl [--restarts 1000] [--requests 1000000]
#         [--mpm prefork,worker,event,threaded] [--seed N] [--clients N]
#         [--duration SECONDS] [--port PORT] [--module PATH] [--load PATH]
#         [--verbose]
#
# Writes build/bench/soak.json.  The exit status is 1 if something was found.
#
# Prefork has half of the --restarts and requests, worker and event a quarter
# each, and threaded, which is another MPM of ours, half of them again: a quarter
# with the module, and a quarter by itself.  A restart is a HUP, a USR1, or two HUPs within 100 ms, by a random
# number; --seed repeats a run's choice.  Each is proven: the generation has
# grown by one, or by one or two where HUP was sent twice, and no child from
# before is left a second after the deadline (30 s after USR1, which has none).
#
# The parent is looked at after a few restarts, and again after the last, when
# the load has ended: more processes in the session, descriptors, shared
# mappings or files in the run-time directory are leaks, and so are semaphores
# and shared memory of System V, names in /dev/shm, and files, that are left
# when the server has stopped.  Nothing else should create semaphores in that
# time.
#
# The parent's memory may grow with each restart, as stock httpd's does: for
# each MPM a stock server is restarted gracefully, a tenth as often, and with
# the module it may grow by no more than that, and 1 KiB.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../scripts";

use BenchReport qw(report);
use Getopt::Long qw(GetOptions);
use List::Util qw(max sum0);
use LoadClient;
use PrivateHttpd;
use Time::HiRes qw(sleep time);

# share: of the restarts and requests; holds: without the module, too.
my %MPMS = (
    prefork  => { share => 0.5, cgi => 'cgi' },
    worker   => { share => 0.25 },
    event    => { share => 0.25 },
    threaded => { share => 0.25, holds => 1 },
);
my @LEAKS = qw(processes descriptors mappings semaphores segments files);
my @COLUMNS = (qw(mpm variant restarts answered lost refused crashed), @LEAKS,
    'kib_per_restart');

# What a page more or less makes of a few hundred restarts.
my $MORE_KIB = 1;

use constant {
    STOCK_SHARE => 0.1,
    LEAST_STOCK => 20,

    # Until the parent has all that it keeps.
    WARM_UP => 5,

    TWICE_SECONDS => 0.1,
    HELD_SECONDS  => 6,     # SigDeferHoldTime's default, and a second
    FREE_SECONDS  => 30,    # of USR1
    STOP_SECONDS  => 20,
};

my $REPO = "$FindBin::Bin/..";
my %option = (
    restarts => 1000,
    requests => 1_000_000,
    mpm      => 'prefork,worker,event,threaded',
    seed     => time,
    clients  => 24,
    duration => 3600,
    port     => 18110,
    module   => "$REPO/build/mod_sigdefer.so",
    load     => "$REPO/build/bench/load",
);

exit main();

sub main {
    GetOptions(\%option, 'restarts=i', 'requests=i', 'mpm=s', 'seed=i',
        'clients=i', 'duration=i', 'port=i', 'module=s', 'load=s', 'verbose')
        && !@ARGV
        or die "usage: see the head of $0\n";
    my @mpms = split /,/, $option{mpm};
    my ($unknown) = grep { !$MPMS{$_} } @mpms;
    !defined $unknown or die "no such MPM: $unknown\n";
    -x $option{load} or die "$option{load} is missing: make it first\n";

    PrivateHttpd::exit_on(qw(INT TERM HUP ALRM));
    $SIG{PIPE} = 'IGNORE';
    $| = 1;
    alarm $option{duration};
    srand $option{seed};
    printf "seed %d\n", $option{seed};

    my @rows  = map { my $mpm = $_; map { soak($mpm, $_) } variants($mpm) } @mpms;
    my $found = 0;
    print "\n";
    report('soak', \@COLUMNS, \@rows);
    for my $row (grep { $_->{variant} ne 'stock' } @rows) {
        my ($stock) = grep {
            $_->{mpm} eq $row->{mpm} && $_->{variant} eq 'stock'
        } @rows;
        $found += check($row, $stock);
    }
    return $found ? 1 : 0;
}

sub variants {
    my ($mpm) = @_;
    return ('stock', 'sigdefer', $MPMS{$mpm}{holds} ? 'alone' : ());
}

# --- one server -----------------------------------------------------------

sub soak {
    my ($mpm, $variant) = @_;
    my $with_module = $variant eq 'sigdefer';
    my $restarts = $MPMS{$mpm}{share} * $option{restarts};
    my $requests = $MPMS{$mpm}{share} * $option{requests};
    my $outside  = outside();

    if ($variant eq 'stock') {
        $restarts = max(LEAST_STOCK, $restarts * STOCK_SHARE);
        $requests = 0;
    }
    my $httpd = start_httpd($mpm, $with_module);
    my $before;
    my @loads = start_loads($mpm);
    my $done  = 0;
    while ($done < WARM_UP + $restarts) {
        $before //= look_at($httpd) if $done >= WARM_UP;
        $done += restart($httpd, $variant ne 'stock');
    }
    await_requests($requests, @loads);
    my @counts = map { $_->finish } @loads;
    my $after  = look_at($httpd, $before);
    my %row    = (
        mpm             => $mpm,
        variant         => $variant,
        restarts        => $done,
        crashed         => $httpd->error_log_count(qr/exit signal/),
        answered        => sum0(map { $_->{answered} } @counts),
        refused         => sum0(map { $_->{refused} } @counts),
        lost            => sum0(map { $_->{lost} + $_->{reset_unaccepted} }
            @counts),
        kib_per_restart => sprintf '%.2f',
        ($after->{kib} - $before->{kib}) / ($done - WARM_UP),
    );

    complain($httpd, $mpm, $variant);
    $httpd->stop;
    add_leaks(\%row, grown($before, $after), grown($outside, outside()),
        { files => [left_files($httpd)] });
    printf "%s %s: %d restarts, %d answered, %d lost\n",
        @row{qw(mpm variant restarts answered lost)};
    return \%row;
}

sub start_httpd {
    my ($mpm, $with_module) = @_;

    return PrivateHttpd->new(
        name     => 'soak',
        mpm      => $mpm,
        port     => $option{port},
        modules  => ['lua', $MPMS{$mpm}{cgi} // ()],
        sigdefer => $with_module ? $option{module} : undef,
        pages    => ["$FindBin::Bin/pages"],
        workers  => $option{clients} + 8,
    )->start;
}

# Half of the clients ask for the short page.
sub start_loads {
    my ($mpm) = @_;
    my @pages = ('alloc.lua', $MPMS{$mpm}{cgi} ? 'program.cgi' : ());
    my $each  = int($option{clients} / 2 / @pages) || 1;
    my @loads = map { load($_, $each) } @pages;

    push @loads, load('static.html', max(1, $option{clients} - @pages * $each));
    $_->await_answers(1) for @loads;
    return @loads;
}

sub load {
    my ($file, $clients) = @_;

    return LoadClient->new(
        program => $option{load},
        port    => $option{port},
        path    => "/$file",
        clients => $clients,
        end     => "END\n",
        verbose => $option{verbose},
    );
}

sub await_requests {
    my ($requests, @loads) = @_;
    my $most = $loads[-1];    # the short page's
    my $rest = sum0(map { $_->counts->{answered} } @loads[0 .. $#loads - 1]);

    # Its own time-out is for a server that does not answer.
    while ($most->counts->{answered} < $requests - $rest) {
        $most->await_answers($most->counts->{answered} + $option{clients});
    }
    return;
}

# --- restarts -------------------------------------------------------------

# Returns how many it were.
sub restart {
    my ($httpd, $holds) = @_;
    my $kind = $holds ? int rand 3 : 1;

    if ($kind == 2) {
        return restart_twice($httpd);
    }
    $httpd->restart($kind == 0 ? ('HUP', undef, HELD_SECONDS)
        : ('USR1', undef, FREE_SECONDS));
    return 1;
}

# The second one may come in time to be one with the first.
sub restart_twice {
    my ($httpd) = @_;
    my $before = $httpd->generation;
    my @old    = $httpd->children;
    my $grown;

    $httpd->send_signal('HUP');
    sleep rand TWICE_SECONDS;
    $httpd->send_signal('HUP');
    PrivateHttpd::wait_until(HELD_SECONDS, sub {
        $grown = ($httpd->generation_if_up // $before) - $before;
        return $grown && !$httpd->left(@old);
    }) or $httpd->fail("HUP twice: the generation has grown by $grown, and "
        . $httpd->left(@old) . ' of ' . @old . ' children are left after '
        . HELD_SECONDS . ' s');
    $grown <= 2
        or $httpd->fail("HUP twice: the generation has grown by $grown");
    return $grown;
}

# --- what is left over ----------------------------------------------------

# What the server has, as lists, and the parent's memory.  Waits for old
# children to go, so that there are no more processes than before.
sub look_at {
    my ($httpd, $before) = @_;
    my $proc = '/proc/' . $httpd->pid;
    my @members;

    PrivateHttpd::wait_until(FREE_SECONDS, sub {
        @members = $httpd->members;
        return !$before || @members <= @{ $before->{processes} };
    });
    return {
        processes   => [map { $_->{id} } @members],
        descriptors => [map { readlink // () } glob "$proc/fd/*"],
        mappings    => [grep { /^\S+ ...s/ }
                split /^/m, PrivateHttpd::slurp("$proc/maps")],
        files => [files($httpd)],
        kib   => PrivateHttpd::slurp("$proc/status") =~ /^VmRSS:\s*(\d+)/m
        ? $1
        : die "$proc/status has no VmRSS\n",
    };
}

# What outlives a server.
sub outside {
    my %found = (files => []);

    for my $kind (['semaphores', 'sem'], ['segments', 'shm']) {
        my (undef, @lines) = split /^/m,
            PrivateHttpd::slurp("/proc/sysvipc/$kind->[1]");
        $found{ $kind->[0] } = [map { (split)[1] } @lines];
    }
    push @{ $found{segments} }, glob '/dev/shm/*';
    return \%found;
}

# Its run-time directory, in which it logs, too.
sub files {
    my ($httpd) = @_;
    return glob $httpd->root . '/logs/*';
}

sub left_files {
    my ($httpd) = @_;
    return grep { !/_log$/ } files($httpd);
}

# By kind, what there is more of.  Names differ from one generation to the
# next: the numbers count.
sub grown {
    my ($before, $after) = @_;
    my %grown;

    for my $kind (grep { ref $before->{$_} } keys %$before) {
        my %known;

        next if @{ $after->{$kind} } <= @{ $before->{$kind} };
        $known{$_}++ for @{ $before->{$kind} };
        $grown{$kind} = [grep { !$known{$_} || !$known{$_}-- }
                @{ $after->{$kind} }];
    }
    return \%grown;
}

sub add_leaks {
    my ($row, @grown) = @_;

    for my $kind (@LEAKS) {
        my @more = map { @{ $_->{$kind} // [] } } @grown;

        $row->{$kind} = @more;
        print map { s/\s*\z/\n/r } map { "left over: $kind: $_" } @more;
    }
    return;
}

# What the log says that should not be there.
sub complain {
    my ($httpd, $mpm, $variant) = @_;

    print map { "$mpm $variant: $_" }
        grep { /:(?:emerg|alert|crit)\]|exit signal|sigdefer: .*(?:over|kill)/ }
        split /^/m, $httpd->error_log;
    return;
}

# --- bars -----------------------------------------------------------------

# Returns how many were missed.
sub check {
    my ($row, $stock) = @_;
    my $missed = 0;
    my $most = $stock->{kib_per_restart} + $MORE_KIB;
    my @bars = (
        (map { [$row->{$_} == 0, "$row->{$_} $_"] } qw(lost refused crashed)),
        (map { [$row->{$_} == 0, "$row->{$_} more $_"] } @LEAKS),
        [   $row->{kib_per_restart} <= $most,
            "the parent grows by $row->{kib_per_restart} KiB a restart, "
                . "$stock->{kib_per_restart} on stock"
        ],
    );

    for my $bar (@bars) {
        my ($met, $text) = @$bar;
        printf "%s: %s %s: %s\n", $met ? 'met' : 'MISSED',
            @$row{qw(mpm variant)}, $text;
        $missed += !$met;
    }
    return $missed;
}
