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


# The accept lock is counted: how often it is taken, how long children wait for
# it and have it, who has it, and whose death has been recovered.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use Apache::Test '-withtestmore';
use AcceptTest;

use List::Util qw(sum0);

plan tests => 12, need_accept_lock();

my $server = accept_server();
my $port   = $server->port;
my $first  = $server->second_port;

for my $asked ($port, $first) {
    fetch('/index.html', $asked) for 1 .. 10;
}
my $holder = holder($server);
my $status = status($port);

like $status->{settings}{SigDeferAcceptLock}, qr/^futex /, 'what lock it is';
cmp_ok figure('acquired'), '>=', 20, 'it has been taken for each connection';
is sum(accept_lock_wait => 'count'), figure('contended'),
    'each wait has a time';
cmp_ok sum(accept_lock_hold => 'count'), '<=', figure('acquired'),
    'it has not been given back more often than taken';
cmp_ok sum(accept_lock_hold => 'count'), '>=', figure('acquired') - 1,
    'nor less, but for who has it';
cmp_ok $status->{accept_lock_hold}{seconds}, '>', 0, 'time goes by meanwhile';
is figure('recovered'), 0, 'nobody has died with it';
ok wait_until(5, sub { $status = status($port); figure('holder') }),
    'someone has it';
is_deeply [ map { $_->{pid} } grep { $_->{accept_lock_holder} }
        @{ $status->{children} } ], [ figure('holder') ], 'it is a child';

my $before = figure('acquired');
kill KILL => holder($server);
ok wait_until(10, sub { recoveries($server) == 1 }), 'who has it is killed';
$status = status($port);
is figure('recovered'), 1, 'which is counted';
cmp_ok figure('acquired'), '>=', $before, 'the sums go on';

sub figure { return $status->{figures}{"accept_lock_$_[0]"} }

sub sum {
    my ($times, $key) = @_;
    return sum0(map { $_->{$key} } @{ $status->{$times}{buckets} });
}
