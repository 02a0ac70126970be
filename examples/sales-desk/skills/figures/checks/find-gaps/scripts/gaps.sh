#!/bin/sh
# gaps.sh FILE: lines of a CSV file with an empty cell.
set -eu
[ $# -eq 1 ] || { echo "usage: gaps.sh FILE" >&2; exit 2; }
lines=$(awk -F , '{ for (i = 1; i <= NF; i++) if ($i ~ /^[ \t]*$/) { print NR; next } }' "$1")
[ -z "$lines" ] && exit 0
echo "$lines"
echo "$(echo "$lines" | wc -l) lines have an empty cell" >&2
exit 1
