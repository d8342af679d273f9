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

# The manual is held against what it tells of: directives and their defaults
# against the module as httpd loads it, messages against the sources, links,
# files and make targets against what there is.
#
# MODULE is the module (build/mod_sigdefer.so), HTTPD the program that loads it.

use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use lib "$FindBin::Bin/../../scripts";
use IO::Socket::INET ();
use PrivateHttpd;
use Test::More;

my $repo   = "$FindBin::Bin/../..";
my $module = abs_path($ENV{MODULE} || "$repo/build/mod_sigdefer.so");

chdir $repo or die "$repo: $!\n";

my %text = map { $_ => PrivateHttpd::slurp($_) }
    'README.md', 'httpd.conf.sample', 'Makefile', glob 'docs/*.md';
my @pages  = sort grep { /\.md$/ } keys %text;
my %anchor = map { $_ => { map { $_ => 1 } anchors($text{$_}) } } @pages;

directives();
messages();
figures();
links();
files();
targets();
done_testing();

# --- directives -----------------------------------------------------------

sub directives {
    my %known     = known_directives();
    my %described = described_directives();
    my %sampled = $text{'httpd.conf.sample'} =~ /^(SigDefer\w*) (.*)$/mg;
    my %listed  = $text{'README.md'}
        =~ /^\| \[(SigDefer\w*)\]\(\S+\) \| `([^`]+)` \|/mg;
    my %indexed = map { $_ => 1 }
        $text{'docs/directives.md'} =~ /^\| \[(SigDefer\w*)\]/mg;
    my %default = map { $_ => $described{$_}{Default} =~ s/^$_ //r }
        keys %described;

    cmp_ok scalar keys %known, '>', 0, 'httpd has directives of the module';
    for my $list (
        [ described        => \%described ],
        [ 'in the index'   => \%indexed ],
        [ 'in the sample'  => \%sampled ],
        [ 'in README.md'   => \%listed ],
    ) {
        is_deeply [ sort keys %{ $list->[1] } ], [ sort keys %known ],
            "all of them are $list->[0], and no other";
    }
    is_deeply \%sampled, \%default, 'the sample has the defaults';
    is_deeply \%listed,  \%default, 'and so has README.md';
    for my $name (sort keys %described) {
        my $fields = $described{$name};

        like $fields->{Syntax}, qr/^$name /, "$name: has a syntax";
        is $fields->{Context},
            $known{$name} =~ /only outside/ ? 'server config' : '?',
            "$name: stands where it may";
        is $fields->{Status}, 'External',     "$name: has a status";
        is $fields->{Module}, 'mod_sigdefer', "$name: has a module";
        like $fields->{Compatibility}, qr/^httpd 2\.4\./,
            "$name: tells what it works with";
        taken($fields->{Example}, "$name: httpd takes the example");
    }
    effective(%default);
    taken($text{'httpd.conf.sample'} =~ s/^LoadModule .*$//mr,
        'httpd takes the sample');
}

# What httpd itself tells of the module's directives, by name.
sub known_directives {
    my (undef, $output) = httpd('-L');
    return $output =~ /^(\w+) \(mod_sigdefer\.c\)\n\t.*\n\t(.*)$/mg;
}

# What stands in the manual, by name: the fields, and the example.
sub described_directives {
    my (undef, %section) = split /^## (SigDefer\w*)\n/m,
        $text{'docs/directives.md'};

    for my $name (keys %section) {
        my %field = $section{$name}
            =~ /^    (\w+): +(\S.*(?:\n {8,}\S.*)*)$/mg;

        s/\s+/ /g for values %field;
        ($field{Example}) = $section{$name} =~ /^Example:\n\n((?: {4}.*\n)+)/m;
        $section{$name} = \%field;
    }
    return %section;
}

# With no directive given, what counts is what is told to be the default.
sub effective {
    my (%default) = @_;
    my (undef, $output) = httpd('-t -D DUMP_SIGDEFER');
    my %effective = $output =~ /^(SigDefer\w*): (.*)$/mg;

    for my $name (sort keys %default) {
        my $value = $effective{$name} // '';

        ($value) = $value =~ /\((\w+):/ if $name eq 'SigDeferAcceptLock';
        is words($value), words($default{$name}),
            "$name: the default is the default";
    }
}

sub words { return join ' ', sort split ' ', $_[0] // '' }

sub taken {
    my ($lines, $what) = @_;
    my ($ok, $output) = httpd('-t', $lines // 'NoExample');
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok($ok, $what) || diag $output;
}

# Runs httpd for an answer, not to serve; whether it succeeds, and what it says.
sub httpd {
    my ($options, $lines) = @_;
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1);
    my $port   = $socket->sockport;

    close $socket;
    my $httpd = PrivateHttpd->new(
        name     => 'docs',
        port     => $port,
        sigdefer => $module,
        modules  => ['authz_host'],
        conf     => $lines // '',
    );
    $httpd->write_root;
    my $command = PrivateHttpd::find_httpd() . ' -f ' . $httpd->conf_file;
    my $output  = `$command $options 2>&1`;
    return ($? == 0, $output);
}

# --- messages -------------------------------------------------------------

# Identifiers and levels, as the sources log them.
sub messages {
    my (%logged, %described);

    for my $file (glob '*.c */*.c') {
        my $source = PrivateHttpd::slurp($file);

        while ($source =~ /APLOG_MARK,((?:(?!APLOG_MARK).)*?)"sigdefer:\ (S\d{3})/sgx) {
            my ($arguments, $id) = ($1, $2);
            $logged{$id}{ lc $_ } = 1
                for grep { $_ ne 'STARTUP' } $arguments =~ /APLOG_(\w+)/g;
        }
    }
    for ($text{'docs/log.md'} =~ /^\| (S\d{3} \| [\w, ]+) \|/mg) {
        my ($id, $levels) = split / \| /;
        $described{$id}{$_} = 1 for split /, /, $levels;
    }
    cmp_ok scalar keys %logged, '>', 0, 'the sources log messages';
    is_deeply levels(%described), levels(%logged),
        'each is in log.md, with its level';

    my %named = map { $_ => 1 } map { $text{$_} =~ /\b(S0\d\d)\b/g } @pages;
    is_deeply [ grep { !$logged{$_} } sort keys %named ], [],
        'no page names another one';
}

sub levels {
    my (%of) = @_;
    my %short = (warning => 'warn', err => 'error');

    return [ map {
        my $id = $_;
        join ' ', $id, sort map { $short{$_} // $_ } keys %{ $of{$id} };
    } sort keys %of ];
}

# --- figures --------------------------------------------------------------

# README.md has some rows of results.md, as they stand there.
sub figures {
    my %measured = map { $_ => 1 } split /\n/, $text{'docs/results.md'};
    my ($gains)  = $text{'README.md'} =~ /^## What it gains.*?\n(.*?)^## /ms;
    my @rows     = grep { /\d/ } ($gains // '') =~ /^(\|.*\|)$/mg;

    cmp_ok scalar @rows, '>', 0, 'README.md has figures';
    is_deeply [ grep { !$measured{$_} } @rows ], [], 'which are the results';
}

# --- links, files, targets ------------------------------------------------

sub links {
    my (@broken, %linked);

    for my $page (@pages) {
        my $dir = $page =~ s{[^/]*$}{}r;

        for my $link ($text{$page} =~ /\]\(([^)\s]+)\)/g) {
            next if $link =~ m{^https?://};
            my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
            my $target = $path eq '' ? $page : "$dir$path";

            1 while $target =~ s{[^/]+/\.\./}{};
            $linked{$target} = 1 if $target ne $page;
            push @broken, "$page: $link"
                if !-e $target || defined $anchor && !$anchor{$target}{$anchor};
        }
    }
    is_deeply \@broken, [], 'links lead somewhere';
    is_deeply [ grep { $_ ne 'README.md' && !$linked{$_} } @pages ], [],
        'and to every page';
}

# As GitHub makes them of the headings.
sub anchors {
    my ($text) = @_;
    return map { lc($_) =~ s/[^\w\- ]//gr =~ tr/ /-/r } $text =~ /^#+ (.*)$/mg;
}

# `t/docs/example.t`, `sigdefer/`
sub files {
    my @missing;

    for my $page (@pages) {
        push @missing, map { "$page: $_" } grep { !/^build\// && !-e }
            $text{$page} =~ m{`((?:[\w-]+/)+(?:[\w-]+\.\w+)?)`}g;
    }
    is_deeply \@missing, [], 'files that are named are there';
}

sub targets {
    my %target = map { $_ => 1 }
        map { split } $text{Makefile} =~ /^([a-z][\w\- ]*):(?!=)/mg;
    my @unknown;

    for my $page (@pages) {
        my @named = (
            $text{$page} =~ /`make ([\w-]+)/g,
            $text{$page} =~ /^    (?:.*&& )?(?:sudo )?make ([a-z][\w-]*)/mg,
        );
        push @unknown, map { "$page: $_" } grep { !$target{$_} } @named;
    }
    cmp_ok scalar keys %target, '>', 0, 'make has targets';
    is_deeply \@unknown, [], 'those that are named are among them';
}
