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


# Requests that come over TLS, as HTTP/2, through a proxy or with a user of
# their own are finished over a restart and a stop like any other; mod_watchdog
# has a task in a child meanwhile.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use File::Temp ();

my $prefork = mpm() eq 'prefork';
my $pages   = 'probe-linked/slow?chunks=15';
my %kinds   = (
    tls    => sub { curl('--http1.1', "https://127.0.0.1:$_[1]/$pages") },
    proxy  => sub { curl("http://127.0.0.1:$_[0]/proxied/$pages") },
    $prefork ? () : (
        h2  => sub { curl('--http2', "https://127.0.0.1:$_[1]/$pages") },
        h2c => sub {
            curl('--http2-prior-knowledge', "http://127.0.0.1:$_[0]/$pages");
        },
    ),
);
my @signals = qw(HUP USR1 TERM);
my @modules = qw(socache_shmcb ssl slotmem_shm proxy proxy_http proxy_balancer
    lbmethod_byrequests proxy_hcheck);
my $dir = File::Temp->newdir(TMPDIR => 1);

plan tests => @signals * (keys(%kinds) + 3), need_sigdefer(
    { 'curl or openssl is not installed' =>
            !system('command -v curl >/dev/null && command -v openssl'
                . ' >/dev/null') },
    { 'no certificate could be made' => make_certificate() },
    need_modules(@modules, $prefork ? () : 'http2'));

for my $signal (@signals) {
    my $server = server(
        workers => 12,
        modules => [@modules, $prefork ? () : 'http2'],
        conf    => \&conf,
    );
    my %client = map {
        $_ => $kinds{$_}->($server->port, $server->second_port)
    } sort keys %kinds;

    readline $client{$_} for sort keys %client;
    my @pids = $server->child_pids;
    $server->send_signal($signal);
    for my $kind (sort keys %kinds) {
        my $rest = do { local $/; readline $client{$kind} };

        like $rest, qr/^chunk: 15\nEND\n\z/m, "$signal: $kind";
    }
    replaced($server, $signal, 5, '/proxied/index.html', $signal, @pids);
    no_crash($server->log);
}

# -N, so that what has come is to be seen at once.
sub curl {
    open my $client, '-|', qw(curl -skN --max-time 20), @_
        or die "curl: $!\n";
    return $client;
}

sub make_certificate {
    return !system "openssl req -x509 -newkey rsa:2048 -nodes -days 1"
        . " -subj /CN=localhost -keyout $dir/key -out $dir/cert 2>/dev/null";
}

sub conf {
    my ($second) = @_;

    return <<"END";
SSLSessionCache shmcb:logs/sessions
<VirtualHost 127.0.0.1:$second>
    SSLEngine On
    SSLCertificateFile    "$dir/cert"
    SSLCertificateKeyFile "$dir/key"
</VirtualHost>
<IfModule http2_module>
    Protocols h2 h2c http/1.1
</IfModule>
ProxyHCExpr ok {%{REQUEST_STATUS} =~ /^2/}
<Proxy "balancer://self">
    BalancerMember "https://127.0.0.1:$second" hcmethod=TCP hcinterval=1
</Proxy>
SSLProxyEngine On
SSLProxyVerify none
SSLProxyCheckPeerCN Off
SSLProxyCheckPeerName Off
ProxyPass "/proxied/" "balancer://self/"
END
}
