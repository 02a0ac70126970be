#!/bin/sh
# count.sh: how many rows standard input has below its header line.
set -eu
awk 'NR > 1 && NF { n++ } END { print n + 0 }'
