<?php
// One sleep, which a signal would cut short.
header('Content-Type: text/plain');
echo 'pid: ', getmypid(), "\n";
flush();
echo 'slept: ', sleep(2) === 0 ? 'in full' : 'cut short', "\n";
