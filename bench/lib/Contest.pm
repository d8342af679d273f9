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

# The programs that contend for locks, run from Perl.
#
#     use Contest qw(mechanisms contest);
#
#     my @mechanisms = mechanisms();
#     my $result = contest('locks', '-m', 300,
#         @{ $mechanisms[0] }{qw(kind by mechanism)}, 50, 1_000_000);
#
#   mechanisms()      each lock as { kind, by, mechanism }
#   contest(PROGRAM, ARGUMENTS)  what the program prints as a line of JSON
#
# Files of locks are made in a folder of their own, which goes with us.

package Contest;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Temp ();
use JSON::PP qw(decode_json);

our @EXPORT_OK = qw(mechanisms contest);

my $PROGRAMS = dirname(dirname(dirname(abs_path(__FILE__)))) . '/build/bench';
my $temp = File::Temp->newdir('sigdefer-XXXXXX', TMPDIR => 1);

sub mechanisms {
    return map {
        my %lock;
        @lock{qw(kind by mechanism)} = split;
        \%lock;
    } output('locks', 'list');
}

sub contest {
    my @command = @_;
    my ($line) = output(@command);

    return decode_json($line // die "@command: printed nothing\n");
}

sub output {
    my ($program, @arguments) = @_;

    local $ENV{TMPDIR} = "$temp";
    open my $out, '-|', "$PROGRAMS/$program", @arguments
        or die "$PROGRAMS/$program: $!\n";
    my @lines = <$out>;
    close $out or die "failed: $program @arguments\n";
    return @lines;
}

1;
