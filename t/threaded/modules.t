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

# Other people's modules run on it, over a restart, without mod_sigdefer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

use File::Temp ();

my @modules = qw(socache_shmcb ssl http2 proxy proxy_http dav dav_fs filter
    deflate cgid lua);
my $dir   = File::Temp->newdir(TMPDIR => 1);
my $store = File::Temp->newdir(TMPDIR => 1);
my $page  = 'index.html';

plan tests => 2 * 9 + 1, need_threaded(
    { 'curl or openssl is not installed' =>
            !system('command -v curl >/dev/null && command -v openssl'
                . ' >/dev/null') },
    { 'no certificate could be made' => make_certificate() },
    need_modules(@modules));

my $server = server(sigdefer => 0, probe => undef, modules => \@modules,
    workers => 16, conf => \&conf);
my ($http, $https) = map { "127.0.0.1:$_" } $server->port,
    $server->second_port;

ask_all('at the start');
$server->restart('HUP');
ask_all('after a restart');
no_crash($server->log);

sub ask_all {
    my ($when) = @_;

    like curl('--http1.1', "https://$https/$page"), qr/^200 1.1 /, "$when: mod_ssl";
    like curl('--http2', "https://$https/$page"), qr/^200 2 /,
        "$when: mod_http2";
    like curl("http://$http/proxied/$page"), qr/^200 1.1 /,
        "$when: mod_proxy";
    like curl('-T', $server->conf_file, "http://$http/dav/file-$when" =~
            tr/ /-/r), qr/^201 /, "$when: mod_dav takes a file";
    like curl(qw(-X PROPFIND -H Depth:1), "http://$http/dav/"), qr/^207 /,
        "$when: and lists it";
    like curl('--compressed', "http://$http/dav/file-$when" =~ tr/ /-/r),
        qr/^200 .* gzip /, "$when: mod_deflate";
    like curl("http://$http/status.cgi"), qr/^200 .*SigCgt/s,
        "$when: mod_cgid";
    like curl("http://$http/thread.lua"), qr/^200 .*END$/s,
        "$when: mod_lua";
    my %status = $server->status;
    is $status{ServerMPM}, 'threaded', "$when: mod_status";
}

# "STATUS VERSION ENCODING", then the body.
sub curl {
    open my $client, '-|', qw(curl -sk --max-time 15 -o), "$dir/body", '-w',
        '%{http_code} %{http_version} %header{content-encoding} ', @_
        or die "curl: $!\n";
    my $told = <$client> // '';
    close $client;
    return $told . PrivateHttpd::slurp("$dir/body");
}

sub make_certificate {
    return !system "openssl req -x509 -newkey rsa:2048 -nodes -days 1"
        . " -subj /CN=localhost -keyout $dir/key -out $dir/cert 2>/dev/null";
}

sub conf {
    my ($second) = @_;

    chmod 0777, $store;
    return <<"END";
<VirtualHost 127.0.0.1:$second>
    SSLEngine On
    SSLCertificateFile    "$dir/cert"
    SSLCertificateKeyFile "$dir/key"
    Protocols h2 http/1.1
</VirtualHost>
SSLProxyEngine On
SSLProxyVerify none
SSLProxyCheckPeerCN Off
SSLProxyCheckPeerName Off
ProxyPass "/proxied/" "https://127.0.0.1:$second/"
DavLockDB "$store/locks"
Alias "/dav" "$store"
<Directory "$store">
    Dav On
    Require all granted
    ForceType text/plain
    SetOutputFilter DEFLATE
</Directory>
END
}
