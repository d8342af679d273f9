#!/bin/sh
# Starts a program that leaves the process group, and waits for it, for as many
# seconds as the query says.
echo 'Content-Type: text/plain'
echo
echo "pid: $$"
setsid sleep "$QUERY_STRING" &
wait
