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


# A strict reader of OpenMetrics 1.0 text, as far as counters, gauges and
# histograms go.
#
#     my $samples = OpenMetrics::samples($text);   # "name{labels}" => value
#
# Dies with the line and what is wrong with it.

package OpenMetrics;

use strict;
use warnings;

my $NAME   = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
my $LABEL  = qr/[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"/;
my $NUMBER = qr/[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?/;
my %SUFFIX = (
    counter   => qr/_total/,
    gauge     => qr//,
    histogram => qr/_bucket|_sum|_count/,
);

sub samples {
    my ($text) = @_;
    my %parser = (types => {}, helps => {}, samples => {}, family => '');

    $text =~ s/\n# EOF\n\z/\n/ or die "the end is missing\n";
    for my $line (split /\n/, $text, -1) {
        last if $line eq '' && $text =~ /\n\z/;
        eval { take_line(\%parser, $line); 1 } or die "$line: $@";
    }
    check_histogram(\%parser, $_)
        for grep { $parser{types}{$_} eq 'histogram' } keys %{ $parser{types} };
    return $parser{samples};
}

sub take_line {
    my ($parser, $line) = @_;

    if ($line =~ /^# TYPE ($NAME) (\w+)$/) {
        !$parser->{types}{$1}++ or die "a second time\n";
        $SUFFIX{$2} or die "no such type\n";
        @$parser{qw(family)} = $1;
        $parser->{types}{$1} = $2;
    }
    elsif ($line =~ /^# HELP ($NAME) (\S.*)$/) {
        $1 eq $parser->{family} or die "not of $parser->{family}\n";
        !$parser->{helps}{$1}++ or die "a second time\n";
    }
    else {
        take_sample($parser, $line);
    }
    return;
}

sub take_sample {
    my ($parser, $line) = @_;
    my $family = $parser->{family};
    my $suffix = $SUFFIX{ $parser->{types}{$family} // die "no family\n" };

    my ($name, $labels, $value)
        = $line =~ /^($NAME)(\{$LABEL(?:,$LABEL)*\})? ($NUMBER)$/
        or die "no sample\n";
    $name =~ /^\Q$family\E(?:$suffix)$/ or die "not of $family\n";
    $family !~ /_total$/ or die "a family is called _total\n";
    my $key = $name . ($labels // '');
    !exists $parser->{samples}{$key} or die "a second time\n";
    $parser->{samples}{$key} = $value;
    $suffix eq qr/_total/ && $value < 0 and die "a counter below 0\n";
    push @{ $parser->{buckets}{$family} }, [ $1, $value ]
        if $name =~ /_bucket$/ && $labels =~ /^\{le="(.*)"\}$/;
    return;
}

sub check_histogram {
    my ($parser, $family) = @_;
    my @buckets = @{ $parser->{buckets}{$family} // [] };
    my ($bound, $count) = (-1, 0);

    @buckets && $buckets[-1][0] eq '+Inf' or die "$family: no +Inf\n";
    $buckets[-1][1] == $parser->{samples}{"${family}_count"}
        or die "$family: +Inf is not the count\n";
    defined $parser->{samples}{"${family}_sum"} or die "$family: no sum\n";
    for my $bucket (@buckets) {
        my $next = $bucket->[0] eq '+Inf' ? 9**9**9 : $bucket->[0];

        $next > $bound && $bucket->[1] >= $count
            or die "$family: bucket $bucket->[0] out of order\n";
        ($bound, $count) = ($next, $bucket->[1]);
    }
    return;
}

1;
