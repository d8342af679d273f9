#!/bin/sh
# The signals that a CGI program finds blocked and ignored.
echo 'Content-Type: text/plain'
echo
cat /proc/self/status
