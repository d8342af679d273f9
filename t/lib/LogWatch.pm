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


# What is written to a log from now on.
#
#     my $log = LogWatch->new($file);
#     $log->lines(qr/exit signal/)           # those that match, so far
#     $log->wait_for(qr/adopted/, 5)         # the first one, or undef

package LogWatch;

use strict;
use warnings;

use PrivateHttpd ();

sub new {
    my ($class, $file) = @_;
    return bless { file => $file, start => -s $file || 0 }, $class;
}

sub text {
    my ($self) = @_;
    my $text = PrivateHttpd::slurp($self->{file});

    return length $text > $self->{start} ? substr $text, $self->{start} : '';
}

sub lines {
    my ($self, $pattern) = @_;
    return grep { $_ =~ $pattern } split /\n/, $self->text;
}

sub wait_for {
    my ($self, $pattern, $seconds) = @_;
    return PrivateHttpd::wait_until($seconds,
        sub { ($self->lines($pattern))[0] });
}

1;
