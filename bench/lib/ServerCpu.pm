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

# The CPU time of a whole server, as the kernel's scheduler accounts for it.
#
#     use ServerCpu qw(cpu_seconds cpu_of_children child_ids);
#
#   cpu_seconds(HTTPD)      of a PrivateHttpd, its children included
#   cpu_of_children(HTTPD)  of each child, by process id
#   child_ids(HTTPD)
#
# It is in nanoseconds: /proc/PID/stat counts in steps of 10 ms for each
# process.  Children that have ended are in the parent's stat alone.

package ServerCpu;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(sum0);
use POSIX ();
use PrivateHttpd ();

our @EXPORT_OK = qw(cpu_seconds cpu_of_children child_ids);

my $ticks = POSIX::sysconf(POSIX::_SC_CLK_TCK);

sub cpu_seconds {
    my ($httpd) = @_;
    my $seconds = sum0(map { cpu_of_process($_) }
        $httpd->pid, child_ids($httpd));
    my $stat = PrivateHttpd::slurp('/proc/' . $httpd->pid . '/stat');

    $seconds > 0 or die "this kernel has no /proc/PID/schedstat\n";
    $stat =~ s/^.*\) //s;
    my ($user, $system) = (split ' ', $stat)[13, 14];
    return $seconds + ($user + $system) / $ticks;
}

sub cpu_of_children {
    my ($httpd) = @_;
    return map { $_ => cpu_of_process($_) } child_ids($httpd);
}

sub child_ids {
    my ($httpd) = @_;
    return map { /^(\d+):/ } $httpd->children;
}

sub cpu_of_process {
    my ($pid) = @_;
    my @ns = map { PrivateHttpd::slurp($_) =~ /^(\d+)/ ? $1 : 0 }
        glob "/proc/$pid/task/*/schedstat";

    return sum0(@ns) / 1e9;
}

1;
