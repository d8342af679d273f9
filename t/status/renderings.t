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


# The renderings are well-formed and tell the same; what is not asked for in the
# legal way is refused.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';
use File::Temp ();
use OpenMetrics ();

my %type = (
    ''         => 'text/html; charset=utf-8',
    '?auto'    => 'text/plain; charset=utf-8',
    '?json'    => 'application/json',
    '?metrics' =>
        'application/openmetrics-text; version=1.0.0; charset=utf-8',
);
$type{'?'}         = $type{''};
$type{'?metrics='} = $type{'?metrics'};
my @refused = ('?foo', '?=', '?auto==', '?autos', '?auto&json', '?AUTO', '?json=1', '?%61uto');
my @methods = qw(POST PUT DELETE OPTIONS PATCH);
my ($promtool) = grep { -x } map { "$_/promtool" } split /:/, $ENV{PATH};

plan tests => 5 * keys(%type) + 2 * @refused + 2 * @methods + 6 + 4 + 4 + 3 + 4,
    need_sigdefer();

my $port = port();
probe('linked', 'order', $port);

# --- how it is asked for ---

for my $query (sort keys %type) {
    my $name   = $query || 'the page';
    my $answer = answer($port, $query);
    my $head   = answer($port, $query, method => 'HEAD');

    is $answer->{status}, 200, "$name: is there";
    is $answer->{headers}{'content-type'}, $type{$query}, "$name: its type";
    is $answer->{headers}{'cache-control'}, 'no-store', "$name: not to be kept";
    is $head->{headers}{'content-type'}, $type{$query}, "$name: HEAD";
    is $head->{content} // '', '', "$name: HEAD has no body";
}
for my $query (@refused) {
    my $answer = answer($port, $query);

    is $answer->{status}, 400, "$query: refused";
    like $answer->{content}, qr/legal are none, auto, json, metrics/,
        "$query: and told what is legal";
}
for my $method (@methods) {
    my $answer = answer($port, '', method => $method);

    is $answer->{status}, 405, "$method: not allowed";
    like join(' ', sort split /,/, $answer->{headers}{allow}),
        qr/^GET HEAD\b/, "$method: what is";
}

# --- what it says ---

my $status  = status($port);
my $lines   = status_lines($port);
my $samples = eval { OpenMetrics::samples(metric_text($port)) };
ok $samples, 'OpenMetrics are well-formed' or diag $@;
is_deeply [ grep { !/^SigDefer/ } keys %$lines ], [],
    'each line has the prefix';

# figures that do not change by being looked at
my @figures = grep { !/^(?:uptime|accept|children)/ }
    sort keys %{ $status->{figures} };
cmp_ok scalar @figures, '>=', 20, 'there are figures';
is_deeply { map { $_ => $lines->{ 'SigDefer' . camel($_) } + 0 } @figures },
    { map { $_ => $status->{figures}{$_} + 0 } @figures },
    'lines and JSON have the same';
is_deeply { map { $_ => metric($_) + 0 } @figures },
    { map { $_ => $status->{figures}{$_} + 0 } @figures },
    'metrics and JSON have the same';
is_deeply [ sort grep { /^SigDefer[A-Z]/ } map { "$_: $lines->{$_}" }
        keys %{ $status->{settings} } ],
    [ sort map { "$_: $status->{settings}{$_}" }
        grep { /^SigDefer[A-Z]/ } keys %{ $status->{settings} } ],
    'lines and JSON have the same settings';

my $page = answer($port, '')->{content};
is unbalanced($page), '', 'the page is well-formed';
is_deeply [ $page =~ /<th\b(?! scope="(?:row|col)")[^>]*>/g ], [],
    'all heads of tables have a scope';
is_deeply [ grep { !/^(?:\?\w+|data:,)$/ } $page =~ /(?:src|href)="([^"]*)"/g ],
    [], 'nothing comes from outside';
like $page, qr{<td>(?:futex|exclusive|the MPM(?:&#39;|')s own)},
    'what is configured is on it';

# --- on the page of mod_status ---

my $theirs = fetch('/server-status', $port);
like $theirs, qr{<h2>mod_sigdefer</h2>}, 'mod_status has a section';
like $theirs, qr{<th scope="row">SigDeferHold</th><td>On</td>}, 'with settings';
my $auto = fetch('/server-status?auto', $port);
like $auto, qr/^SigDeferSignalsDeferred: \d+$/m, 'its lines are there';
is_deeply [ map { /^(SigDefer\w+)/ ? $1 : () } split /\n/, $auto ],
    [ map { /^(SigDefer\w+)/ ? $1 : () } split /\n/,
        fetch('/sigdefer-status?auto', $port) ], 'all of them';

# --- for a Prometheus that does not know OpenMetrics ---

my $old = answer($port, '?metrics', accept => 'text/plain');
is $old->{headers}{'content-type'}, 'text/plain; version=0.0.4; charset=utf-8',
    'the older format';
like $old->{content}, qr/^# TYPE sigdefer_restarts_total counter$/m,
    'its counters';
SKIP: {
    skip 'promtool is not installed', 1 if !$promtool;
    is promtool($old->{content}), '', 'promtool has no complaints';
}

# --- values that need to be escaped ---

SKIP: {
    skip 'this MPM takes no accept lock', 4 if mpm() eq 'event';

    # with one listener nobody makes a file there
    my $temp = File::Temp->newdir('sigdefer-XXXXXX', TMPDIR => 1);
    my $dir  = "$temp/<i>&\"";

    mkdir $dir or die "$dir: $!\n";
    my $server = server(listeners => 1,
        conf => "Mutex 'file:$dir' mpm-accept\n");
    my $value = eval { status($server->port)->{settings}{SigDeferAcceptLock} };
    my $shown = eval { answer($server->port, '')->{content} } // '';

    like $value // '', qr{/<i>&"}, 'a setting from the configuration: JSON';
    like $shown, qr{/&lt;i&gt;&amp;&quot;}, 'it is escaped on the page';
    ok eval { OpenMetrics::samples(metric_text($server->port)) }, 'in metrics'
        or diag $@;
    no_crash($server->log);
}

sub camel {
    my ($name) = @_;
    return join '', map { ucfirst } split /_/, $name;
}

# A figure, or the sum over signals.
sub metric {
    my ($name) = @_;
    my $sum = 0;

    return $samples->{"sigdefer_$name"} if exists $samples->{"sigdefer_$name"};
    my @keys = grep { /^sigdefer_${name}_total(?:\{|$)/ } keys %$samples;
    @keys or die "no metric of $name\n";
    $sum += $samples->{$_} for @keys;
    return $sum;
}

# The first tag that has no other half.
sub unbalanced {
    my ($html) = @_;
    my @open;

    $html =~ s{(<(script|style)>).*?</\2>}{$1</$2>}gs;
    while ($html =~ m{<(/?)(\w+)[^>]*?(/?)>}g) {
        my ($closes, $tag, $is_empty) = ($1, $2, $3);

        next if $is_empty || $tag =~ /^(?:meta|link|input)$/;
        push @open, $tag if !$closes;
        return "</$tag> after <" . ($open[-1] // '') . '>'
            if $closes && (pop @open // '') ne $tag;
    }
    return join ' ', @open;
}

sub promtool {
    my ($text) = @_;
    my $file = File::Temp->new(TEMPLATE => 'sigdefer-XXXXXX', TMPDIR => 1);

    print {$file} $text;
    close $file;
    return scalar `"$promtool" check metrics <"$file" 2>&1`;
}
