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

# What is out of range is refused, what contradicts something else corrected,
# and a second MPM is none.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

my @ranges = (
    [StartServers      => 20_000],
    [ServerLimit       => 20_000],
    [ThreadLimit       => 20_000],
    [ThreadsPerChild   => 20_000],
    [MinSpareThreads   => 400_000_000],
    [MaxSpareThreads   => 400_000_000],
    [MaxRequestWorkers => 400_000_000],
    [MaxClients        => 400_000_000],
);
my @bad   = qw(0 many);
my @worse = qw(-1 5x 99999999999999999999);
my @corrected = (
    ['ThreadsPerChild 100' =>
            qr/T002: ThreadsPerChild 100 .* decreased to 64/],
    ["ThreadsPerChild 30\nMaxRequestWorkers 20" =>
            qr/T003: MaxRequestWorkers 20 .* increased to 30/],
    ["ThreadsPerChild 30\nMaxRequestWorkers 100" =>
            qr/T004: MaxRequestWorkers 100 .* decreased to 90/],
    ["ServerLimit 2\nMaxRequestWorkers 100" =>
            qr/T005: MaxRequestWorkers 100 .* decreased to 50/],
    ["StartServers 10\nMaxRequestWorkers 50" =>
            qr/T006: StartServers 10 .* decreased to 2/],
);

plan tests => @ranges * (2 * (@bad + 1) + 1) + 2 * @worse
    + 2 * @corrected + 2 + 3 + 2,
    need_threaded();

for my $row (@ranges) {
    my ($directive, $most) = @$row;

    refused($directive, $_, $most) for @bad, $most + 1;
    my ($ok, $output) = configtest("ServerLimit 20000\n$directive 10");
    ok $ok, "$directive 10: taken" or diag $output;
}
refused('ServerLimit', $_, 20_000) for @worse;
for my $row (@corrected) {
    my ($lines, $message) = @$row;
    my ($ok, $output) = configtest($lines);

    ok $ok, ($lines =~ s/\n/, /gr) . ': taken';
    like $output, $message, 'and corrected, with a warning';
}

{
    my ($ok, $output) = configtest('LoadModule mpm_worker_module '
            . installed('mpm_worker'));

    ok !$ok, 'a second MPM: refused';
    like $output, qr/More than one MPM loaded/, 'a second MPM: by httpd';
}
{
    # what cannot change while it runs stays
    my $server = server(sigdefer => 0, probe => undef, listeners => 1,
        conf => "ServerLimit 8\nThreadLimit 8");
    my $conf = PrivateHttpd::slurp($server->conf_file);
    write_file($server->conf_file,
        "$conf\nServerLimit 9\nThreadLimit 9\nThreadsPerChild 2\n");
    $server->restart('HUP');
    like $server->error_log, qr/T001: ServerLimit stays 8/,
        'ServerLimit stays';
    like $server->error_log, qr/T001: ThreadLimit stays 8/,
        'ThreadLimit stays';
    ok eval { fetch('/index.html', $server->port) }, 'and it serves';
}
{
    my $file = Apache::Test::config()->{modules}{'mod_mpm_threaded.c'};
    my @exported = map { (split)[2] } `nm -D --defined-only $file`;

    is "@exported", 'mpm_threaded_module', 'only the record is exported';
    my ($ok, $output) = configtest('', sigdefer => 0);
    ok $ok, 'it needs no mod_sigdefer' or diag $output;
}

sub refused {
    my ($directive, $value, $most) = @_;
    my ($ok, $output) = configtest("$directive $value");

    ok !$ok, "$directive $value: refused";
    like $output,
        qr/$directive: '$value' is out of range; legal are 1 to $most/,
        "$directive $value: the message tells why";
    return;
}

sub write_file {
    my ($file, $text) = @_;

    open my $out, '>', $file or die "$file: $!\n";
    print {$out} $text;
    close $out or die "$file: $!\n";
    return;
}
