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


# The page in a real browser: nothing to complain of, figures that move while
# signals are sent, everything there with scripts off, light and dark, and no
# wider than a phone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use StatusTest;
use WebDriver;
use Apache::Test '-withtestmore';

plan tests => 5 + 4 + 3 + 3, need_sigdefer(
    { 'chromium and chromium-driver are not installed' =>
            WebDriver::is_there() });

my $server = status_server();
my $port   = $server->port;
my $page   = $server->url('/sigdefer-status');
my ($free) = TestServer::free_ports(2);

probe('linked', 'order', $port);
{
    my $browser = WebDriver->new($free);

    $browser->go($page);
    is $browser->text('h1'), 'mod_sigdefer', 'the page is there';
    is cell($browser, 'RTMIN+1', 3), 3, 'with its figures';
    probe('linked', 'order', $port) for 1 .. 2;
    ok wait_until(20, sub { cell($browser, 'RTMIN+1', 3) == 9 }),
        'they move, and are right';
    $server->restart('HUP');
    ok wait_until(20, sub {
        $browser->text('[data-figure=restarts]') eq '1'
    }), 'over a restart, too';
    is_deeply [ $browser->errors ], [], 'the browser has no complaints';

    my %colours;
    for my $kind (qw(light dark)) {
        $browser->media($kind, 1100);
        $colours{$kind} = $browser->run(
            'return getComputedStyle(document.body).backgroundColor');
        cmp_ok contrast($browser), '>=', 4.5, "$kind: text can be read";
    }
    isnt $colours{light}, $colours{dark}, 'light and dark are different';
    $browser->media('light', 360);
    is $browser->run('return document.documentElement.scrollWidth'), 360,
        'it fits a phone';

    # what the script puts in place looks as what the server has sent
    my $live = tables($browser);
    $browser->go($page);
    is_deeply [ grep { !defined } @$live ], [], 'all tables are there';
    is $live->[0], tables($browser)->[0], 'the script writes what the server does';
    is_deeply [ $browser->errors ], [], 'again no complaints';
}
{
    my $browser = WebDriver->new($free, javascript => 0);

    $browser->go($page);
    is cell($browser, 'RTMIN+1', 3), 9, 'scripts off: the figures are there';
    is $browser->text('#control'), '', 'nothing that would need them';
    ok $browser->text('svg ~ figcaption'), 'and the chart';
}

# A cell in the row of a signal, by its number from 1.
sub cell {
    my ($browser, $signal, $column) = @_;
    my @row = map { split ' ' } grep { /^\Q$signal\E / }
        split /\n/, $browser->text('#signals tbody');

    return $row[ $column - 1 ] // -1;
}

sub tables {
    my ($browser) = @_;
    return [ map { $browser->text("#$_") } qw(signals children times) ];
}

# The least ratio of the luminances of text and what is behind it, of WCAG.
sub contrast {
    my ($browser) = @_;
    return $browser->run(<<'END');
function light(colour) {
    var parts = colour.match(/[\d.]+/g).slice(0, 3).map(function (c) {
        c /= 255;
        return c <= 0.03928 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
function behind(element) {
    var colour = getComputedStyle(element).backgroundColor;
    return colour === 'rgba(0, 0, 0, 0)' ? behind(element.parentElement) : colour;
}
return Math.min.apply(null, Array.from(
    document.querySelectorAll('h1, h2, p, a, dt, dd, th, td, figcaption'),
    function (element) {
        var text = light(getComputedStyle(element).color);
        var back = light(behind(element));
        return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
    }));
END
}
