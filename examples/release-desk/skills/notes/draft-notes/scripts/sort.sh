#!/bin/sh
# sort.sh VERSION: release notes from a list of changes on standard input.
set -eu
[ $# -eq 1 ] || { echo "usage: sort.sh VERSION" >&2; exit 2; }
awk -v version="$1" '
	/^[ \t]*$/ { next }
	{ kind = $1; sub(/^[^ ]+ +/, "") }
	kind == "add" { new = new "- " $0 "\n"; next }
	kind == "change" { changed = changed "- " $0 "\n"; next }
	kind == "fix" { fixed = fixed "- " $0 "\n"; next }
	{ print "no kind of change: " kind " " $0 | "cat 1>&2"; bad = 1 }
	END {
		if (bad) exit 1
		print "# " version "\n"
		if (new) print "## New\n\n" new
		if (changed) print "## Changed\n\n" changed
		if (fixed) print "## Fixed\n\n" fixed
	}'
