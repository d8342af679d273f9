<?php
// Answers in pieces, one every 100 ms, and allocates between them.
header('Content-Type: text/plain');
$chunks = (int) ($_GET['chunks'] ?? 1);
for ($i = 1; $i <= $chunks; $i++) {
    $heap = [];
    for ($j = 1; $j <= 1000; $j++) {
        $heap[] = [$j];
    }
    echo "chunk: $i\n";
    flush();
    usleep(100000);
}
echo "END\n";
