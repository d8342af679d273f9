<?php
// Allocates an array of arrays and strings.

$objects = [];
for ($i = 0; $i < 50000; $i++) {
    $objects[] = ['number' => $i, 'name' => "object $i"];
}
header('Content-Type: text/plain');
echo count($objects), " objects\nEND\n";
