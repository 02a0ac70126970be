#!/bin/sh
# sum.sh FILE GROUP AMOUNT: the totals of a column by the groups of another.
set -eu
[ $# -eq 3 ] || { echo "usage: sum.sh FILE GROUP AMOUNT" >&2; exit 2; }
[ -r "$1" ] || { echo "there is no file $1" >&2; exit 2; }
totals=$(awk -F , -v group="$2" -v amount="$3" '
	NR == 1 {
		for (i = 1; i <= NF; i++) { if ($i == group) g = i; if ($i == amount) a = i }
		if (!g || !a) { print "there is no column " (g ? amount : group) | "cat 1>&2"; bad = 1; exit 2 }
		next
	}
	{ sum[$g] += $a }
	END { if (bad) exit 2; for (k in sum) printf "%s\t%.2f\n", k, sum[k] }' "$1") || exit 2
[ -z "$totals" ] || printf '%s\n' "$totals" | sort -t "	" -k2,2nr
