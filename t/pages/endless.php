<?php
// Allocates and frees without end.
set_time_limit(0);
header('Content-Type: text/plain');
echo 'pid: ', getmypid(), "\n";
flush();
while (true) {
    $heap = [];
    for ($i = 0; $i < 1000; $i++) {
        $heap[] = [$i];
    }
}
