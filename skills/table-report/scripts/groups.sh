#!/bin/sh
# Groups the rows of a CSV file by one column and sums another:
#
#   groups.sh FILE GROUP AMOUNT
#
# It prints CSV, the largest total first: the group, its rows, their total, and
# its share of all in percent. Lines it cannot use are named on standard error.
# Cells in quotes are more than it reads: it says so and ends with 2.
set -eu
[ $# -eq 3 ] || { echo "usage: groups.sh FILE GROUP AMOUNT" >&2; exit 2; }
LC_ALL=C
export LC_ALL
groups=$(awk -F , -v group="$2" -v amount="$3" '
	function say(text) { print text | "cat 1>&2" }
	function give_up(text) { say(text); gave_up = 1; exit 2 }
	{ sub(/\r$/, "") }
	/"/ { give_up("line " NR " has cells in quotes, which are not read") }
	NR == 1 {
		for (i = 1; i <= NF; i++) { if ($i == group) g = i; if ($i == amount) a = i }
		if (!g || !a) give_up("there is no column " (g ? amount : group))
		columns = NF
		next
	}
	/^[ \t]*$/ { next }
	NF != columns || $a !~ /^-?[0-9]+(\.[0-9]+)?$/ { say("left out: line " NR); next }
	{ rows[$g]++; sum[$g] += $a; all += $a }
	END {
		if (gave_up) exit 2
		if (!NR) give_up("there is no header line")
		for (k in rows) printf "%s,%d,%.2f,%.1f\n", k, rows[k], sum[k], all ? 100 * sum[k] / all : 0
	}' "$1")
echo "$2,rows,total,share"
[ -z "$groups" ] || printf '%s\n' "$groups" | sort -t , -k 3,3nr -k 1,1
