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

# What restarts and stops of a server under load cost: requests lost, children
# crashed, time without answers.  With mod_sigdefer, without it, and without it
# but restarted gracefully.
#
#     bench/restart.pl [--mpm prefork,...] [--pages lua,...]
#         [--actions restart,stop,outage] [--variants stock,graceful,sigdefer]
#         [--restarts N] [--clients N] [--slot SECONDS] [--duration SECONDS]
#         [--port PORT] [--module PATH] [--load PATH] [--check] [--verbose]
#
# Writes build/bench/restart.json.  All of @FORMS below are measured, one after
# another; --mpm, --pages and --actions choose from them.  PORT and the next
# one are used.  --check applies the bars to the rows of sigdefer, and those of
# requests that are lost to the rows of our MPM without it; the exit status is 1
# if one is missed.
#
# For each form the variants take turns, a few restarts each, so that what
# else the machine does meets all of them.  "answered" counts the requests
# answered within a time slot after each signal, which is the same for all
# variants, so that the numbers can be compared.  The next signal comes when
# the slot is over and the restart is proven.  The other columns count all the
# time; "stale" are kept connections that the server has closed while idle, so
# that the client made its request again on a new one, as browsers do.
#
# Every restart is proven (PrivateHttpd's restart): the generation has grown by
# one, and with the module no child from before is left a second after the
# deadline.  A request sent after the signal is answered under the new
# configuration: that answer ends the gap.  A form in which something is not
# proven ends there, and has missed a bar.
#
# A stop is followed by a start, as soon as the server is gone.
#
# An outage is measured with nothing but a client that asks for a short page
# all the time, on an idle server, and on one that serves a request of 4
# seconds when the signal comes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../scripts";

use BenchReport qw(report median);
use Getopt::Long qw(GetOptions);
use List::Util qw(max min);
use LoadClient;
use PrivateHttpd;
use Time::HiRes qw(sleep time);

my %PAGES = (
    lua       => { file => 'alloc.lua', modules => ['lua'] },
    php       => { file => 'alloc.php', modules => ['php'] },
    cgi       => { file => 'program.cgi', modules => ['cgi'] },
    cgid      => { file => 'program.cgi', modules => ['cgid'] },
    static    => { file => 'static.html' },
    keepalive => { file => 'static.html', keep => 1 },
    tls       => { file => 'static.html', modules => ['ssl'], tls => 1 },
    idle      => { file => 'static.html' },
    serving   => { file => 'static.html', modules => ['lua'],
        beside => 'sleep.lua', restarts => 5 },
);

my %VARIANTS = (
    stock    => { restart => 'HUP', stop => 'TERM' },
    graceful => { restart => 'USR1', stop => 'WINCH' },
    sigdefer => { restart => 'HUP', stop => 'TERM', module => 1 },
);

# restarts: how many by default; turn: how many in a row.
my %ACTIONS = (
    restart => { restarts => 20, turn => 5, take => \&restart_once },
    stop    => { restarts => 5, turn => 5, take => \&stop_and_start_once },
    outage  => { restarts => 20, turn => 5, take => \&restart_once,
        clients => 1 },
);

my @FORMS = (
    (map { [prefork => $_] } qw(lua php static keepalive tls cgi)),
    (map { [worker => $_] } qw(lua static cgid)),
    (map { [event => $_] } qw(lua static cgid)),
    (map { [threaded => $_] } qw(lua static keepalive tls cgid)),
);
@FORMS = (
    (map { [@$_, 'restart'] } @FORMS),
    (map { [@$_, 'stop'] } @FORMS),
    (map { [$_, 'idle', 'outage'], [$_, 'serving', 'outage'] }
            qw(prefork worker event threaded)),
);

my @KEYS = qw(mpm page action);
my @COLUMNS = qw(mpm page variant action restarts answered lost refused
    reset_unaccepted stale crashed median_gap_ms worst_gap_ms);
my @COUNTS = qw(answered lost refused reset_unaccepted stale);

use constant {
    END_MARK      => "END\n",
    TAG_HEADER    => 'X-Generation',
    STOCK_SECONDS => 30,
    BEGIN_SECONDS => 5,

    # SigDeferHoldTime's default, and a second.
    HELD_SECONDS => 6,

    # What the same server's outages differ by from one run to the next.
    NOISE_MS => 20,

    # Of the answers that a graceful restart gives.
    LEAST_SHARE => 0.9,
};

my $REPO = "$FindBin::Bin/..";
my %option = (
    clients  => 24,
    variants => 'stock,graceful,sigdefer',
    slot     => 1,
    duration => 3600,
    port     => 18100,
    module   => "$REPO/build/mod_sigdefer.so",
    load     => "$REPO/build/bench/load",
);

exit main();

sub main {
    GetOptions(\%option, 'restarts=i', 'clients=i', 'pages=s', 'variants=s',
        'mpm=s', 'actions=s', 'slot=f', 'duration=i', 'port=i', 'module=s',
        'load=s', 'check', 'verbose')
        && !@ARGV
        or die "usage: see the head of $0\n";
    my @variants = split /,/, $option{variants};
    my @forms    = chosen_forms();
    my ($unknown) = grep { !$VARIANTS{$_} } @variants;
    !defined $unknown or die "no such variant: $unknown\n";
    @forms or die "nothing to do: no row has this MPM, page and action\n";
    -x $option{load} or die "$option{load} is missing: make it first\n";

    PrivateHttpd::exit_on(qw(INT TERM HUP ALRM));
    $SIG{PIPE} = 'IGNORE';
    $| = 1;
    alarm $option{duration};

    my @failed;
    my @rows = map { measure_or_fail($_, \@failed, @variants) } @forms;
    print "\n";
    report('restart', \@COLUMNS, \@rows);
    print map { "FAILED: $_" } @failed;
    my $missed = $option{check} && check(@rows);
    return @failed || $missed ? 1 : 0;
}

sub chosen_forms {
    my @forms = @FORMS;
    my @options = qw(mpm pages actions);

    for my $i (grep { defined $option{ $options[$_] } } 0 .. $#options) {
        my %wanted = map { $_ => 1 } split /,/, $option{ $options[$i] };
        @forms = grep { $wanted{ $_->[$i] } } @forms;
    }
    return @forms;
}

# --- one form, all variants -----------------------------------------------

sub measure_or_fail {
    my ($form, $failed, @variants) = @_;
    my @rows = eval { measure($form, @variants) };

    if ($@) {
        push @$failed, "@$form: $@";
        print $failed->[-1];
    }
    return @rows;
}

sub measure {
    my ($form, @variants) = @_;
    my ($mpm, $page, $name) = @$form;
    my $action = $ACTIONS{$name};
    my $left   = $option{restarts} // $PAGES{$page}{restarts}
        // $action->{restarts};
    my %row    = map {
        $_ => {
            mpm      => $mpm,
            page     => $page,
            variant  => $_,
            action   => $name,
            restarts => 0,
            crashed  => 0,
            gaps     => [],
            map { $_ => 0 } @COUNTS,
        }
    } @variants;

    while ($left > 0) {
        my $restarts = min($left, $action->{turn});
        take_turn($row{$_}, $restarts) for @variants;
        $left -= $restarts;
    }
    return map { finish_row($_) } @row{@variants};
}

sub take_turn {
    my ($row, $restarts) = @_;
    my $variant = $VARIANTS{ $row->{variant} };
    my $action  = $ACTIONS{ $row->{action} };
    my $httpd   = start_httpd(@$row{qw(mpm page)}, $variant->{module});
    my $clients = $action->{clients} // $option{clients};
    my $load    = load($PAGES{ $row->{page} }, $clients);

    $load->await_answers($clients);
    for my $n (1 .. $restarts) {
        set_generation($httpd, $n);
        my $beside = start_beside($row, $httpd);
        my ($since, $answered) = $action->{take}->($httpd, $variant,
            sub { return (time, $load->mark($n)) });
        $load->await_gap;
        add_counts($row, $beside->await_end) if $beside;
        $load->await_answers($answered + $clients);
        sleep max(0, $since + $option{slot} - time);
    }
    my $counts = $load->finish;
    add_counts($row, $counts);
    $row->{restarts} += $restarts;
    $row->{crashed} += $httpd->error_log_count(qr/exit signal/);
    push @{ $row->{gaps} }, @{ $counts->{gaps_ms} };
    $httpd->stop;
    printf "%s %s %s: %d x %s, %d answered, %d lost\n",
        @$row{qw(mpm page variant)}, $restarts, $row->{action},
        @$counts{qw(answered lost)};
    return;
}

# A request of its own that is being served when the signal comes, if the page
# has one.
sub start_beside {
    my ($row, $httpd) = @_;
    my $file = $PAGES{ $row->{page} }{beside};

    return if !$file;
    my $load = load({ file => $file }, 1, count => 1);
    PrivateHttpd::wait_until(BEGIN_SECONDS, sub { is_served($httpd, $file) })
        or die "$file is not being served after " . BEGIN_SECONDS . " s\n";
    return $load;
}

# What server-status says of a worker that writes a response.
sub is_served {
    my ($httpd, $file) = @_;
    my $status = $httpd->get('/server-status')->{content};

    return grep { m{<b>W</b>} && m{GET /\Q$file\E } } split /<tr>/, $status;
}

sub load {
    my ($page, $clients, %more) = @_;

    return LoadClient->new(
        program => $option{load},
        port    => $option{port} + ($page->{tls} ? 1 : 0),
        path    => "/$page->{file}",
        clients => $clients,
        end     => END_MARK,
        tag     => TAG_HEADER,
        slot    => $option{slot},
        verbose => $option{verbose},
        keep    => $page->{keep},
        tls     => $page->{tls},
        %more,
    );
}

sub add_counts {
    my ($row, $counts) = @_;

    # The listener stays open over a restart: no connection may be reset.
    if ($row->{action} ne 'stop') {
        $counts->{lost} += $counts->{reset_unaccepted};
        $counts->{reset_unaccepted} = 0;
    }
    $row->{$_} += $counts->{$_} for @COUNTS;
    return;
}

# --- the server -----------------------------------------------------------

sub start_httpd {
    my ($mpm, $name, $with_module) = @_;
    my $page = $PAGES{$name};
    my $httpd = PrivateHttpd->new(
        name     => 'restart',
        mpm      => $mpm,
        port     => $option{port},
        modules  => $page->{modules} // [],
        sigdefer => $with_module && $option{module},
        pages    => ["$FindBin::Bin/pages"],

        # One for each client, and some for server-status.
        workers => $option{clients} + 8,
        conf    => "Include conf/generation.conf\n"
            . ($page->{tls} ? tls_conf() : ''),
    );
    my $conf = $httpd->root . '/conf';

    $httpd->write_root;
    set_generation($httpd, 'first');
    make_certificate($conf) if $page->{tls};

    # PHP has what we say, whatever is enabled on the machine.
    write_file("$conf/php.ini", "zend_extension=opcache\nextension=apcu\n");
    local @ENV{qw(PHPRC PHP_INI_SCAN_DIR)} = ($conf, '');
    return $httpd->launch;
}

# With a second port prefork's children take the accept mutex in turn.
sub tls_conf {
    my $port = $option{port} + 1;

    return "Listen 127.0.0.1:$port\n"
        . "<VirtualHost 127.0.0.1:$port>\n"
        . "    SSLEngine on\n"
        . "    SSLCertificateFile conf/tls.crt\n"
        . "    SSLCertificateKeyFile conf/tls.key\n"
        . "</VirtualHost>\n";
}

sub make_certificate {
    my ($dir) = @_;
    my @command = (qw(openssl req -x509 -nodes -newkey ec),
        qw(-pkeyopt ec_paramgen_curve:P-256 -days 2 -subj /CN=localhost),
        '-keyout', "$dir/tls.key", '-out', "$dir/tls.crt");

    system("@command 2>/dev/null") == 0 or die "failed: @command\n";
    return;
}

# Read anew at each restart: an answer tells which configuration it was made
# under, whatever the page.
sub set_generation {
    my ($httpd, $tag) = @_;

    write_file($httpd->root . '/conf/generation.conf',
        'Header always set ' . TAG_HEADER . " $tag\n");
    return;
}

sub write_file {
    my ($file, $text) = @_;

    open my $out, '>', $file or die "$file: $!\n";
    print {$out} $text;
    close $out or die "$file: $!\n";
    return;
}

# Both return what the mark returned: the time and the number of requests
# answered when the signal was sent.

sub restart_once {
    my ($httpd, $variant, $mark) = @_;
    my @marked;

    $httpd->restart($variant->{restart}, sub { @marked = $mark->() },
        seconds_to_go($variant));
    return @marked;
}

sub stop_and_start_once {
    my ($httpd, $variant, $mark) = @_;
    my @old     = $httpd->children;
    my @marked  = $mark->();
    my $seconds = seconds_to_go($variant);

    $httpd->send_signal($variant->{stop});
    $httpd->wait_gone($seconds)
        or $httpd->fail("$variant->{stop}: not gone after $seconds s");
    PrivateHttpd::wait_until($seconds, sub { !$httpd->left(@old) })
        or die "$variant->{stop}: children are left after the parent\n";
    $httpd->launch;
    return @marked;
}

# In which the children from before must have gone.
sub seconds_to_go {
    my ($variant) = @_;
    return $variant->{module} ? HELD_SECONDS : STOCK_SECONDS;
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

# Returns whether a bar was missed.
sub check {
    my (@rows) = @_;
    my $missed = 0;

    for my $row (grep { is_ours($_) } @rows) {
        for my $bar (bars($row, @rows)) {
            my ($met, $text) = @$bar;
            printf "%s: %s %s %s %s: %s\n", $met ? 'met' : 'MISSED',
                @$row{@KEYS, 'variant'}, $text;
            $missed ||= !$met;
        }
    }
    return $missed;
}

# threaded holds by itself.
sub is_ours {
    my ($row) = @_;
    return $row->{variant} eq 'sigdefer' || $row->{mpm} eq 'threaded';
}

sub bars {
    my ($row, @rows) = @_;
    my ($stock)    = same_form($row, 'stock',    @rows);
    my ($graceful) = same_form($row, 'graceful', @rows);
    my @bars = (
        [$row->{lost} == 0,    "$row->{lost} requests lost"],
        [$row->{crashed} == 0, "$row->{crashed} children crashed"],
    );

    return @bars if $row->{variant} ne 'sigdefer';

    if ($row->{action} eq 'stop') {
        push @bars, reset_bar($row, $stock) if $stock;
        return @bars;
    }
    push @bars, [$row->{refused} == 0, "$row->{refused} connections refused"];
    if ($graceful && $row->{action} eq 'restart') {
        push @bars, answered_bar($row, $graceful);
    }
    elsif ($graceful) {
        push @bars, map { gap_bar($_, $row, $graceful) } qw(median worst);
    }
    return @bars;
}

sub same_form {
    my ($row, $variant, @rows) = @_;

    return grep {
        my $other = $_;
        $other->{variant} eq $variant
            && !grep { $other->{$_} ne $row->{$_} } @KEYS;
    } @rows;
}

# Nothing is below none.
sub reset_bar {
    my ($row, $stock) = @_;
    my ($ours, $theirs) = map { $_->{reset_unaccepted} } $row, $stock;

    return [$ours < $theirs || $ours == 0,
        "$ours reset before they were accepted, $theirs on stock"];
}

sub answered_bar {
    my ($row, $graceful) = @_;
    my ($ours, $theirs) = map { $_->{answered} } $row, $graceful;

    return [$ours >= LEAST_SHARE * $theirs,
        "$ours requests answered, $theirs with graceful"];
}

sub gap_bar {
    my ($which, $row, $graceful) = @_;
    my ($ours, $theirs) = map { $_->{"${which}_gap_ms"} } $row, $graceful;

    return [$ours <= $theirs + NOISE_MS,
        "$which outage $ours ms, $theirs with graceful"];
}
