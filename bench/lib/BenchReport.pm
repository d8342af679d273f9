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

# The result of a benchmark as a Markdown table on standard output and as an
# array of flat objects in build/bench/NAME.json.
#
#     use BenchReport qw(report median);
#
#     report('sections', ['case', 'ns_per_pair'],
#         [{ case => 'macro', ns_per_pair => 0.5 }, ...]);
#
#   report(NAME, COLUMNS, ROWS)  returns the path of the JSON file
#   print_table(COLUMNS, ROWS)   the table alone: a further view of the rows
#   write_json(NAME, COLUMNS, ROWS)  the file alone
#   median(LIST)                 undef for an empty list
#   median_interval(SORTED)      what holds the true median with at least 95 %
#                                probability, whatever the noise is like
#
# Columns are printed and written in the order given.  A row need not have
# every column; what it lacks is blank in the table and absent in the object.
# What looks like a number is written as a number, JSON::PP's true and false as
# these.  Undefined is null.

package BenchReport;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Path qw(make_path);
use JSON::PP ();
use List::Util qw(max);
use Scalar::Util qw(looks_like_number);

our @EXPORT_OK = qw(report print_table write_json median median_interval);

my $OUTPUT = dirname(dirname(dirname(abs_path(__FILE__)))) . '/build/bench';

sub report {
    my ($name, $columns, $rows) = @_;

    print_table($columns, $rows);
    return write_json($name, $columns, $rows);
}

sub print_table {
    my ($columns, $rows) = @_;
    my @cells = map {
        my $row = $_;
        [map { $row->{$_} // '' } @$columns];
    } @$rows;
    my @width = map {
        my $i = $_;
        max(3, map { length $_->[$i] } $columns, @cells);
    } 0 .. $#$columns;
    my @number = map {
        my $i = $_;
        !grep { $_->[$i] ne '' && !looks_like_number($_->[$i]) } @cells;
    } 0 .. $#$columns;
    my $line = sub {
        my ($row) = @_;
        my @padded = map {
            sprintf $number[$_] ? '%*s' : '%-*s', $width[$_], $row->[$_]
        } 0 .. $#$columns;
        print '| ', join(' | ', @padded), " |\n";
    };

    $line->($columns);
    $line->([map { '-' x ($width[$_] - $number[$_]) . ':' x $number[$_] }
            0 .. $#$columns]);
    $line->($_) for @cells;
    return;
}

sub write_json {
    my ($name, $columns, $rows) = @_;
    my $file = "$OUTPUT/$name.json";
    my %order;
    @order{@$columns} = 0 .. $#$columns;
    my $json = JSON::PP->new->sort_by(
        sub { $order{$JSON::PP::a} <=> $order{$JSON::PP::b} });
    my @objects = map {
        my $row = $_;
        +{ map { $_ => typed($row->{$_}) }
                grep { exists $row->{$_} } @$columns
        }
    } @$rows;

    make_path($OUTPUT);
    open my $out, '>', $file or die "$file: $!\n";
    print {$out} "[\n", join(",\n", map { $json->encode($_) } @objects),
        "\n]\n";
    close $out or die "$file: $!\n";
    return $file;
}

sub typed {
    my ($value) = @_;
    return defined $value && !ref $value && looks_like_number($value)
        ? 0 + $value : $value;
}

sub median {
    my (@sorted) = sort { $a <=> $b } @_;
    return undef if !@sorted;
    return ($sorted[($#sorted) / 2] + $sorted[@sorted / 2]) / 2;
}

# With n values, the interval from the k-th smallest to the k-th largest
# leaves the true median out with the probability that fewer than k of n
# coins fall on a given side, twice.  The largest k that keeps this within
# 5 %; with fewer than six pairs there is none, and the extremes are taken.
sub median_interval {
    my (@sorted) = @_;
    my $n    = @sorted;
    my $term = 0.5**$n;
    my $tail = $term;
    my $k    = 0;

    while ($tail <= 0.025) {
        ++$k;
        $term *= ($n - $k + 1) / $k;
        $tail += $term;
    }
    my $first = $k > 0 ? $k - 1 : 0;
    return @sorted[$first, $n - 1 - $first];
}

1;
