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

# The chart of bench/locks.pl, which sets data, chart and which blocks of the
# data are the lines of each maker's locks.

set terminal svg size 1100, 520 font 'sans,12' background '#ffffff'
set output chart
set logscale xy
set grid ytics lc rgb '#dddddd' lt 1
set key left top font ',10' samplen 2
set xtics (1, 2, 8, 50, 200)
set xrange [0.9:230]
set yrange [5:1e6]
set format y '10^{%T}'
set xlabel 'contenders'
set multiplot layout 1, 2

set ylabel 'ns for lock, increment, unlock'
set title 'Processes'
plot for [i in processes_ours] data index int(i) using 1:2 \
         title columnheader(1) with linespoints lw 2.5 pt 7 ps 0.5, \
     for [i in processes_apr] data index int(i) using 1:2 \
         title columnheader(1) with linespoints lw 1.5 dt 2 pt 6 ps 0.5, \
     for [i in processes_libc] data index int(i) using 1:2 \
         title columnheader(1) with linespoints lw 1.5 dt 3 pt 4 ps 0.5

unset ylabel
set title 'Threads of a process'
plot for [i in threads_ours] data index int(i) using 1:2 \
         title columnheader(1) with linespoints lw 2.5 pt 7 ps 0.5, \
     for [i in threads_apr] data index int(i) using 1:2 \
         title columnheader(1) with linespoints lw 1.5 dt 2 pt 6 ps 0.5, \
     for [i in threads_libc] data index int(i) using 1:2 \
         title columnheader(1) with linespoints lw 1.5 dt 3 pt 4 ps 0.5

unset multiplot
