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

# "make install" puts under DESTDIR what httpd can load, "make uninstall" takes
# all of it away.

use strict;
use warnings;

use File::Find qw(find);
use FindBin;
use lib "$FindBin::Bin/../lib";
use SigDeferTest;
use Apache::Test '-withtestmore';

plan tests => 10, need_sigdefer();

my $destdir = File::Temp->newdir('sigdefer-XXXXXX', TMPDIR => 1);
my $apxs    = Apache::Test::vars('apxs');
my ($lib, $include, $conf) = map { "$destdir" . `$apxs -q $_` =~ s/\n//r }
    qw(LIBEXECDIR INCLUDEDIR SYSCONFDIR);
my @files = ("$lib/mod_sigdefer.so", "$lib/mod_mpm_threaded.so",
    "$include/mod_sigdefer.h");

# Debian's way of enabling modules
my $available = "$conf/mods-available";
my $is_debian = -d substr $available, length $destdir;
push @files, map { "$available/sigdefer.$_" } qw(conf load) if $is_debian;

is make('install'), 0, 'installed';
is_deeply [ files() ], [ sort @files ], 'where apxs says';

SKIP: {
    skip 'the module is always there', 2 if is_builtin();
    my ($ok, $output) = configtest(
        "LoadModule sigdefer_module \"$files[0]\"", sigdefer => 0);
    ok $ok, 'httpd loads it' or diag $output;
    ok !(configtest('SigDefer On', sigdefer => 0))[0], 'and needs it';
}

SKIP: {
    skip 'needs mods-available, as Debian has it', 4 if !$is_debian;
    my $load = PrivateHttpd::slurp("$available/sigdefer.load");
    my $file = substr $files[0], length $destdir;
    is $load, "LoadModule sigdefer_module $file\n", 'for a2enmod: the module';

    my ($ok, $output) = configtest("Include \"$available/sigdefer.conf\"");
    ok $ok, 'for a2enmod: its configuration' or diag $output;
    mkdir "$conf/mods-enabled" or die "$conf/mods-enabled: $!\n";
    symlink "../mods-available/sigdefer.load",
        "$conf/mods-enabled/sigdefer.load" or die "symlink: $!\n";
    ok -e "$conf/mods-enabled/sigdefer.load", 'enabled';
    unlike PrivateHttpd::slurp("$available/sigdefer.conf"), qr/LoadModule/,
        'each in its file';
}

is make('uninstall'), 0, 'uninstalled';
is_deeply [ files() ], [], 'nothing is left';

sub make {
    my ($target) = @_;
    local %ENV = %ENV;

    delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
    my $output = `make -s -C @{[ Apache::Test::vars('src_dir') ]} $target \\
        APXS=$apxs DESTDIR=$destdir 2>&1`;
    diag $output if $?;
    return $?;
}

sub files {
    my @files;

    find({
        wanted   => sub { push @files, $_ if !-d $_ || -l $_ },
        no_chdir => 1,
    }, "$destdir");
    return sort @files;
}
