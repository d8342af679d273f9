<?php
// One wait, which a signal would cut short: /wait.php?by=sleep&seconds=4

function pair()
{
    return stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
}

$waits = [
    'sleep' => function ($seconds) {
        return sleep($seconds) === 0;
    },
    'recv' => function ($seconds) {
        [$ours, $theirs] = pair();
        stream_set_timeout($ours, $seconds);
        return !fread($ours, 1)
            && stream_get_meta_data($ours)['timed_out'];
    },
    'select' => function ($seconds) {
        [$ours, $theirs] = pair();
        $read = [$ours];
        $none = [];
        return stream_select($read, $none, $none, $seconds) === 0;
    },
    'popen' => function ($seconds) {
        $program = popen("sleep $seconds && echo slept", 'r');
        return fgets($program) === "slept\n" && pclose($program) === 0;
    },
];

header('Content-Type: text/plain');
echo 'pid: ', getmypid(), "\n";
flush();
$seconds = (int) $_GET['seconds'];
$begun = hrtime(true);
$result = $waits[$_GET['by']]($seconds);
$elapsed = intdiv(hrtime(true) - $begun, 1000000);
if ($result && $elapsed >= $seconds * 1000) {
    echo "waited: in full\n";
} else {
    echo "waited: cut short after $elapsed ms\n";
}
