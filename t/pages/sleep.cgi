#!/bin/sh
# One sleep, which a signal would cut short.
echo 'Content-Type: text/plain'
echo
echo "pid: $$"
sleep 2 && echo 'slept: in full'
