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

# What restarts of a server under load cost: requests lost, children crashed,
# time without answers.  With mod_sigdefer, without it, and without it but
# restarted gracefully.
#
#     bench/restart.pl [--mpm prefork] [--pages lua,php] [--actions restart]
#         [--variants stock,graceful,sigdefer] [--restarts N] [--clients N]
#         [--slot SECONDS] [--duration SECONDS] [--port PORT]
#         [--module PATH] [--load PATH] [--full] [--check] [--verbose]
#
# Writes build/bench/restart.json.  --mpm, --pages and --actions take lists
# and choose from @FORMS below; --full takes all of them.  --check applies the
# bars to the rows of sigdefer; the exit status is 1 if one is missed.
#
# For each page the variants take turns, a few restarts each, so that what
# else the machine does meets all of them.  "answered" counts the requests
# answered within a time slot after each signal, which is the same for all
# variants, so that the numbers can be compared.  The next signal comes when
# the slot is over and the restart is proven.  The other columns count all the
# time.
#
# Every restart is proven (PrivateHttpd's restart), and a request sent after
# it is answered under the new configuration: that answer ends the gap.  A
# restart that is not proven ends the bench.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../scripts";

use BenchReport qw(report median);
use Getopt::Long qw(GetOptions);
use IO::Handle ();
use IPC::Open2 qw(open2);
use JSON::PP qw(decode_json);
use List::Util qw(max min sum0);
use PrivateHttpd;
use Time::HiRes qw(sleep time);

my %PAGES = (
    lua  => { file => 'alloc.lua', modules => ['lua'] },
    php  => { file => 'alloc.php', modules => ['php'] },
    cgi  => { file => 'program.cgi', modules => ['cgi'] },
    cgid => { file => 'program.cgi', modules => ['cgid'] },
    static => { file => 'static.html', modules => [] },
    'static-keepalive' =>
        { file => 'static.html', modules => [], keep => 1 },
);

my %VARIANTS = (
    stock    => { restart => 'HUP', stop => 'TERM' },
    graceful => { restart => 'USR1', stop => 'WINCH' },
    sigdefer => { restart => 'HUP', stop => 'TERM', module => 1 },
);

# restarts: how many by default; each form: how many in a turn.
my %ACTIONS = (
    restart => { restarts => 20, turn => 5, take => \&restart_once },
    stop    => { restarts => 5, turn => 5, take => \&stop_and_start_once },
);

my @FORMS = (
    [qw(prefork lua restart)],
    [qw(prefork php restart)],
    [qw(prefork static restart)],
    [qw(prefork static-keepalive restart)],
    [qw(prefork cgi restart)],
    [qw(worker lua restart)],
    [qw(worker static restart)],
    [qw(worker cgid restart)],
    [qw(event lua restart)],
    [qw(event static restart)],
    [qw(event static-keepalive restart)],
    [qw(event cgid restart)],
    [qw(prefork lua stop)],
    [qw(prefork php stop)],
    [qw(worker lua stop)],
    [qw(event lua stop)],
);

my @COLUMNS = qw(mpm page variant action restarts answered lost refused
    reset_unaccepted crashed median_gap_ms worst_gap_ms);
my @COUNTS = qw(answered lost refused reset_unaccepted);

use constant {
    END_MARK       => "END\n",
    TAG_HEADER     => 'X-Generation',
    ANSWER_SECONDS => 30,
    STOP_SECONDS   => 30,
    POLL_SECONDS   => 0.02,

    # A slot is so many times as long as one answer to each client takes, but
    # neither too short to measure nor too long to wait for.
    SLOT_FACTOR      => 4,
    LEAST_SLOT       => 1.2,
    MOST_SLOT        => 3,
    CALIBRATE_ROUNDS => 3,
};

my $REPO = "$FindBin::Bin/..";
my %option = (
    mpm      => 'prefork',
    pages    => 'lua,php',
    actions  => 'restart',
    clients  => 24,
    variants => 'stock,graceful,sigdefer',
    duration => 3600,
    port     => 18100,
    module   => "$REPO/build/mod_sigdefer.so",
    load     => "$REPO/build/bench/load",
);

exit main();

sub main {
    GetOptions(\%option, 'restarts=i', 'clients=i', 'pages=s', 'variants=s',
        'mpm=s', 'actions=s', 'slot=f', 'duration=i', 'port=i', 'module=s',
        'load=s', 'full', 'check', 'verbose')
        && !@ARGV
        or die "usage: see the head of $0\n";
    my @variants = split /,/, $option{variants};
    my @forms    = chosen_forms();
    my ($unknown) = grep { !$VARIANTS{$_} } @variants;
    !defined $unknown or die "no such variant: $unknown\n";
    @forms or die "nothing to do: no row has this MPM, page and action\n";
    -x $option{load} or die "$option{load} is missing: make it first\n";

    # exit, not die, which HTTP::Tiny would catch: objects clean up.
    for my $signal (qw(INT TERM HUP ALRM)) {
        $SIG{$signal} = sub { warn "ended by SIG$signal\n"; exit 1 };
    }
    $SIG{PIPE} = 'IGNORE';
    $| = 1;
    alarm $option{duration};

    my @rows = map { measure($_, @variants) } @forms;
    print "\n";
    report('restart', \@COLUMNS, \@rows);
    return $option{check} ? check(@rows) : 0;
}

sub chosen_forms {
    my @forms = @FORMS;
    my @columns = $option{full} ? () : qw(mpm pages actions);

    for my $i (0 .. $#columns) {
        my %wanted = map { $_ => 1 } split /,/, $option{ $columns[$i] };
        @forms = grep { $wanted{ $_->[$i] } } @forms;
    }
    return @forms;
}

# --- one form, all variants -----------------------------------------------

sub measure {
    my ($form, @variants) = @_;
    my ($mpm, $page, $action) = @$form;
    my $left = $option{restarts} // $ACTIONS{$action}{restarts};
    my $slot = $option{slot} // calibrate($mpm, $page);
    my %row = map {
        $_ => {
            mpm      => $mpm,
            page     => $page,
            variant  => $_,
            action   => $action,
            restarts => 0,
            crashed  => 0,
            gaps     => [],
            map { $_ => 0 } @COUNTS,
        }
    } @variants;

    printf "%s %s %s: slots of %.1f s\n", @$form, $slot;
    while ($left > 0) {
        my $restarts = min($left, $ACTIONS{$action}{turn});
        take_turn($row{$_}, $restarts, $slot) for @variants;
        $left -= $restarts;
    }
    return map { finish_row($_) } @row{@variants};
}

# How long a slot has to be on this machine, by what stock takes.
sub calibrate {
    my ($mpm, $page) = @_;
    my $httpd = start_httpd($mpm, $page);
    my $load  = Load->new($page);

    $load->await_answers($option{clients});
    my $start = time;
    $load->await_answers((1 + CALIBRATE_ROUNDS) * $option{clients});
    my $round = (time - $start) / CALIBRATE_ROUNDS;
    $load->finish;
    $httpd->stop;
    return max(LEAST_SLOT, min(MOST_SLOT, SLOT_FACTOR * $round));
}

sub take_turn {
    my ($row, $restarts, $slot) = @_;
    my $variant = $VARIANTS{ $row->{variant} };
    my $action = $ACTIONS{ $row->{action} };
    my $httpd = start_httpd(@$row{qw(mpm page)}, $variant->{module});
    my $load = Load->new($row->{page}, $slot);

    $load->await_answers($option{clients});
    for my $n (1 .. $restarts) {
        set_generation($httpd, $n);
        my ($since, $answered) = $action->{take}->($httpd, $variant,
            sub { return (time, $load->mark($n)) });
        $load->await_gap;
        $load->await_answers($answered + $option{clients});
        sleep max(0, $since + $slot - time);
    }
    my $counts = $load->finish;

    # The listener stays open over a restart: no connection may be reset.
    if ($row->{action} eq 'restart') {
        $counts->{lost} += $counts->{reset_unaccepted};
        $counts->{reset_unaccepted} = 0;
    }
    $row->{restarts} += $restarts;
    $row->{$_} += $counts->{$_} for @COUNTS;
    $row->{crashed} += $httpd->error_log_count(qr/exit signal/);
    push @{ $row->{gaps} }, @{ $counts->{gaps_ms} };
    $httpd->stop;
    printf "%s %s %s: %d x %s, %d answered, %d lost\n",
        @$row{qw(mpm page variant)}, $restarts, $row->{action},
        @$counts{qw(answered lost)};
    return;
}

sub start_httpd {
    my ($mpm, $page, $with_module) = @_;
    my $httpd = PrivateHttpd->new(
        name     => 'restart',
        mpm      => $mpm,
        port     => $option{port},
        modules  => $PAGES{$page}{modules},
        sigdefer => $with_module && $option{module},
        pages    => ["$FindBin::Bin/pages"],

        # One for each client, and some for server-status.
        workers => $option{clients} + 8,
        conf    => "Include conf/generation.conf\n",
    );

    $httpd->write_root;
    set_generation($httpd, 'first');
    return $httpd->launch;
}

# Read anew at each restart: an answer tells which configuration it was made
# under, whatever the page.
sub set_generation {
    my ($httpd, $tag) = @_;
    my $file = $httpd->root . '/conf/generation.conf';

    open my $out, '>', $file or die "$file: $!\n";
    print {$out} 'Header always set ' . TAG_HEADER . " $tag\n";
    close $out or die "$file: $!\n";
    return;
}

# Both return what the mark returned: the time and the number of requests
# answered when the signal was sent.

sub restart_once {
    my ($httpd, $variant, $mark) = @_;
    my @marked;

    $httpd->restart($variant->{restart}, sub { @marked = $mark->() });
    return @marked;
}

sub stop_and_start_once {
    my ($httpd, $variant, $mark) = @_;
    my @old    = $httpd->children;
    my @marked = $mark->();

    $httpd->send_signal($variant->{stop});
    $httpd->wait_gone(STOP_SECONDS)
        or $httpd->fail("$variant->{stop}: not gone after "
            . STOP_SECONDS . ' s');
    PrivateHttpd::wait_until(STOP_SECONDS, sub { !$httpd->left(@old) })
        or die "$variant->{stop}: children are left after the parent\n";
    $httpd->launch;
    return @marked;
}

# --- rows -----------------------------------------------------------------

sub finish_row {
    my ($row) = @_;
    my @gaps = @{ delete $row->{gaps} };

    @gaps == $row->{restarts}
        or die "$row->{restarts} restarts, but " . @gaps . " gaps\n";

    $row->{median_gap_ms} = sprintf '%.1f', median(@gaps);
    $row->{worst_gap_ms}  = sprintf '%.1f', max(@gaps);
    return $row;
}

sub check {
    my (@rows) = @_;
    my $missed = 0;

    for my $row (grep { $_->{variant} eq 'sigdefer' } @rows) {
        my @same = qw(mpm page action);
        my ($stock) = grep {
            my $other = $_;
            $other->{variant} eq 'stock'
                && !grep { $other->{$_} ne $row->{$_} } @same;
        } @rows;
        my @bars = (
            ["$row->{crashed} children crashed", $row->{crashed} == 0],
            [   "$row->{lost} of $row->{answered} requests lost",
                $row->{lost} * 10_000 <= $row->{answered}
            ],
        );
        push @bars,
            [
            "$row->{answered} answered, $stock->{answered} on stock",
            $row->{answered} >= $stock->{answered}
            ] if $stock;
        for my $bar (@bars) {
            my ($text, $met) = @$bar;
            printf "%s: %s %s %s: %s\n", $met ? 'met' : 'MISSED',
                @$row{@same}, $text;
            $missed ||= !$met;
        }
    }
    return $missed ? 1 : 0;
}

# --- the load client ------------------------------------------------------

package Load;

sub new {
    my ($class, $name, $slot) = @_;
    my $page = $PAGES{$name};
    my $self = bless {}, $class;
    my @command = (
        $option{load}, '-i',
        '-p' => $option{port},
        '-u' => "/$page->{file}",
        '-c' => $option{clients},
        '-e' => main::END_MARK,
        '-t' => main::TAG_HEADER,
        $slot            ? ('-w' => $slot) : (),
        $page->{keep}    ? '-k' : (),
        $option{verbose} ? '-v' : (),
    );

    $self->{pid} = main::open2($self->{from}, $self->{to}, @command);
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
    return main::decode_json($line);
}

# Returns the number of requests answered before the mark.
sub mark {
    my ($self, $tag) = @_;
    return answers($self->ask("mark $tag"));
}

# In the slots and outside of them.
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
    my $deadline = main::time() + main::ANSWER_SECONDS;

    until ($condition->($self->ask('count'))) {
        main::time() < $deadline
            or die "$complaint after " . main::ANSWER_SECONDS . " s\n";
        main::sleep(main::POLL_SECONDS);
    }
    return;
}

# Requests under way are finished first.
sub finish {
    my ($self) = @_;

    close $self->{to};
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
