<?php
// Works for two seconds of the processor's time, which is what counts for PHP's
// time limit; the query says what that is.

function cpu_time()
{
    $used = getrusage();
    return $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']
        + ($used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec']) / 1000000;
}

function work($seconds)
{
    $end = cpu_time() + $seconds;
    while (cpu_time() < $end) {
        $heap = array_fill(0, 1000, [1]);
    }
}

header('Content-Type: text/plain');
echo 'pcntl: ', function_exists('pcntl_signal') ? 'yes' : 'no', "\n";
set_time_limit((int) $_SERVER['QUERY_STRING']);
work(2);
echo "END\n";
