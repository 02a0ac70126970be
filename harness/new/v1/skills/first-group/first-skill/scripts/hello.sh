#!/bin/sh
# hello.sh NAME: what a script prints is its result; another code than 0 is a failure.
set -eu
[ $# -eq 1 ] || { echo "usage: hello.sh NAME" >&2; exit 2; }
echo "Hello, $1."
