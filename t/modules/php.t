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


# mod_php's time limit, a SIGPROF with a handler of Zend Signals, ends a page, and
# the next request of the child has nothing of it.  (pcntl, which could set
# handlers, is in PHP's command line program only.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 8, need_sigdefer({ 'mod_php is not installed' => has_php() });

my $server = server(workers => 1, modules => ['php'], listeners => 1);
my $pid    = probe('linked', 'state', $server->port)->{pid};
my $free   = fetch('/limit.php?10', $server->port);

like $free, qr/^pcntl: no$/m, 'pcntl is not there';
like $free, qr/^END$/m,       'within the limit a page is answered';
unlike answer('/limit.php?1'), qr/^END$/m, 'beyond it the page is ended';
like $server->log->text, qr/Maximum execution time of 1 second exceeded/,
    'as PHP tells';

TODO: {
    local our $TODO = 'Zend Signals go in front at the begin of each request';

    like fetch('/probe-linked/around?page=limit.php%3f1', $server->port),
        qr/^END$/m, 'inside a section the limit waits';
}
like fetch('/limit.php?10', $server->port), qr/^END$/m,
    'the next page knows nothing of it';
is probe('linked', 'state', $server->port)->{pid}, $pid,
    'all in the same child';
no_crash($server->log);

# Whatever the status.
sub answer {
    my ($path) = @_;
    return Client->new($server->port)->get($path)->rest(10);
}
