#!/bin/sh
# Answers in pieces, one every 100 ms.
echo 'Content-Type: text/plain'
echo
i=1
last=${QUERY_STRING#chunks=}
while [ $i -le "${last:-1}" ]; do
    echo "chunk: $i"
    sleep 0.1
    i=$((i + 1))
done
echo END
