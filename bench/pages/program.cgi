#!/bin/sh
# A program that httpd runs.
printf 'Content-Type: text/plain\r\n\r\n'
echo "process $$"
echo END
