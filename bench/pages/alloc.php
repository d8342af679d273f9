<?php
// Allocates an array of arrays and strings, and keeps a part of it in the
// memory that APCu shares between the children.

$objects = [];
for ($i = 0; $i < 50000; $i++) {
    $objects[] = ['number' => $i, 'name' => "object $i"];
}
$key = 'objects' . getmypid() % 8;
apcu_store($key, array_slice($objects, 0, 1000));
apcu_inc('requests');
$kept = apcu_fetch($key);
header('Content-Type: text/plain');
echo count($objects), ' objects, ', count($kept), " kept\nEND\n";
