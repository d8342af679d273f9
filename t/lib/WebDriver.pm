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


# A headless Chromium, driven by its chromedriver over HTTP.
#
#     my $browser = WebDriver->new($port, javascript => 1);
#     $browser->go($url);
#     $browser->run('return document.title')     # in the page; its result
#     $browser->text('h1')                       # of the first such element
#     $browser->errors                           # of the page, since the last call
#     $browser->media('dark', 390);              # colours, width
#     $browser->screenshot($file);
#
# WebDriver::is_there() tells whether both programs are installed.

package WebDriver;

use strict;
use warnings;

use HTTP::Tiny   ();
use JSON::PP     ();
use MIME::Base64 ();
use POSIX        ();

use PrivateHttpd ();

use constant START_DEADLINE => 30;

sub program {
    my ($name) = @_;
    return (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0];
}

sub is_there { return program('chromium') && program('chromedriver') }

sub new {
    my ($class, $port, %arg) = @_;
    my $self = bless {
        base  => "http://127.0.0.1:$port",
        agent => HTTP::Tiny->new(timeout => 60),
        owner => $$,
    }, $class;

    $self->{pid} = fork // die "fork: $!\n";
    if (!$self->{pid}) {
        setpgrp;
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        exec 'chromedriver', "--port=$port" or POSIX::_exit(127);
    }
    PrivateHttpd::wait_until(START_DEADLINE,
        sub { eval { $self->ask(GET => '/status')->{ready} } })
        or die "chromedriver does not start\n";
    my $session = $self->ask(POST => '/session', {
        capabilities => { alwaysMatch => {
            'browserName'         => 'chrome',
            'goog:loggingPrefs'   => { browser => 'ALL' },
            'goog:chromeOptions'  => chrome_options($arg{javascript} // 1),
        } },
    });
    $self->{base} .= "/session/$session->{sessionId}";
    return $self;
}

# As root it has no sandbox.
sub chrome_options {
    my ($javascript) = @_;
    my %content = (
        'profile.managed_default_content_settings.javascript' =>
            $javascript ? 1 : 2,
    );
    return {
        binary => program('chromium'),
        args   => [
            qw(--headless=new --disable-gpu --hide-scrollbars),
            $> == 0 ? '--no-sandbox' : (),
        ],
        prefs => \%content,
    };
}

sub ask {
    my ($self, $method, $path, $data) = @_;
    my $answer = $self->{agent}->request($method, $self->{base} . $path, $data
        ? { content => JSON::PP::encode_json($data) } : {});

    $answer->{success} or die "$path: $answer->{content}\n";
    return JSON::PP::decode_json($answer->{content})->{value};
}

sub go {
    my ($self, $url) = @_;

    $self->ask(POST => '/url', { url => $url });
    return;
}

sub run {
    my ($self, $script) = @_;
    return $self->ask(POST => '/execute/sync',
        { script => $script, args => [] });
}

# Does not need scripts to be on.
sub text {
    my ($self, $selector) = @_;
    my $element = $self->ask(POST => '/element',
        { using => 'css selector', value => $selector });
    my ($id) = values %$element;

    return $self->ask(GET => "/element/$id/text");
}

sub errors {
    my ($self) = @_;
    return map { $_->{message} }
        @{ $self->ask(POST => '/se/log', { type => 'browser' }) };
}

sub devtools {
    my ($self, $command, $parameters) = @_;
    return $self->ask(POST => '/goog/cdp/execute',
        { cmd => $command, params => $parameters });
}

sub media {
    my ($self, $colours, $width) = @_;

    $self->devtools('Emulation.setEmulatedMedia', { features =>
            [ { name => 'prefers-color-scheme', value => $colours } ] });
    $self->devtools('Emulation.setDeviceMetricsOverride', {
        width => $width, height => 900, deviceScaleFactor => 1,
        mobile => JSON::PP::false,
    });
    return;
}

sub screenshot {
    my ($self, $file) = @_;

    open my $out, '>', $file or die "$file: $!\n";
    binmode $out;
    print {$out} MIME::Base64::decode_base64(
        $self->ask(GET => '/screenshot'));
    close $out or die "$file: $!\n";
    return;
}

# Its browser is in its group.
sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);

    return if $self->{owner} != $$ || !$self->{pid};
    eval { $self->ask(DELETE => '') };
    kill '-TERM', $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

1;
