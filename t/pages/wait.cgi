#!/bin/sh
# One wait, which a signal would cut short: as many seconds as the query says.
echo 'Content-Type: text/plain'
echo
echo "pid: $$"
begun=$(date +%s%N)
sleep "$QUERY_STRING"
status=$?
elapsed=$((($(date +%s%N) - begun) / 1000000))
if [ $status -eq 0 ] && [ $elapsed -ge $((QUERY_STRING * 1000)) ]; then
    echo 'waited: in full'
else
    echo "waited: cut short, status $status after $elapsed ms"
fi
