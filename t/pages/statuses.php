<?php
// The statuses of programs that end with a status of their own.
header('Content-Type: text/plain');
exec('exit 5', $output, $status);
echo "exec: $status\n";
echo 'pclose: ', pclose(popen('exit 7', 'r')), "\n";
echo 'proc_close: ', proc_close(proc_open('exit 8', [], $pipes)), "\n";
system('exit 9', $status);
echo "system: $status\n";
