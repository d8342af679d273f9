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


# A Prometheus scrapes the page, and has the figures that are on it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';

use File::Temp ();
use HTTP::Tiny ();
use JSON::PP   ();
use POSIX      ();

my ($prometheus) = grep { -x } map { "$_/prometheus" } split /:/, $ENV{PATH};
my $child;

plan tests => 4, need_sigdefer(
    { 'prometheus is not installed' => $prometheus });

my $server = status_server();
my ($port) = TestServer::free_ports(2);
my $temp   = File::Temp->newdir('sigdefer-XXXXXX', TMPDIR => 1);

probe('linked', 'order', $server->port) for 1 .. 3;
start_prometheus();

is_deeply [ wait_until(30, sub { value('up{job="sigdefer"}') }) ], [1],
    'it has scraped the page';
my $figures = status($server->port)->{figures};
is value('sum(sigdefer_signals_deferred_total)'), $figures->{signals_deferred},
    'deferred signals';
is value('sigdefer_signals_run_total{signal="RTMIN+1"}'), 9,
    'of one signal, those that were run';
is value('sigdefer_queue_highest'), $figures->{queue_highest}, 'a gauge';

END {
    my $status = $?;

    if ($child) {
        kill TERM => $child;
        waitpid $child, 0;
    }
    $? = $status;
}

sub start_prometheus {
    my $target = '127.0.0.1:' . $server->port;

    open my $out, '>', "$temp/prometheus.yml" or die "$temp: $!\n";
    print {$out} <<"END";
scrape_configs:
  - job_name: sigdefer
    scrape_interval: 1s
    metrics_path: /sigdefer-status
    params: { metrics: [''] }
    static_configs: [ { targets: [ '$target' ] } ]
END
    close $out or die "$temp: $!\n";
    $child = fork // die "fork: $!\n";
    if (!$child) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        exec $prometheus, "--config.file=$temp/prometheus.yml",
            "--storage.tsdb.path=$temp/data",
            "--web.listen-address=127.0.0.1:$port"
            or POSIX::_exit(127);
    }
    return;
}

# Of a query that has one result.
sub value {
    my ($query) = @_;
    my $agent   = HTTP::Tiny->new(timeout => 15);
    my $answer  = $agent->get("http://127.0.0.1:$port/api/v1/query?"
            . $agent->www_form_urlencode({ query => $query }));

    return if !$answer->{success};
    my $found = JSON::PP::decode_json($answer->{content})->{data}{result};
    return $found->[0] ? $found->[0]{value}[1] + 0 : undef;
}
