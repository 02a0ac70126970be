#!/bin/sh
# The tests of the project: sh tests/run.sh, in the project's folder.
# Each prints "ok" or "not ok" with its name; the last line is "passed N of M".
cd "$(dirname "$0")/.." || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0
all=0

# check NAME COMMAND...: the command ends with 0.
check() {
  name=$1
  shift
  all=$((all + 1))
  if "$@" >/dev/null 2>&1; then
    passed=$((passed + 1))
    echo "ok - $name"
  else
    echo "not ok - $name"
  fi
}

# prints FILE OUT: the program prints the page of a menu, and ends well.
prints() { sh made/page.sh "$1" >"$2" 2>"$2.err" </dev/null && [ -s "$2" ]; }
# holds OUT TEXT: the page has this text.
holds() { [ -s "$1" ] && grep -qF -- "$2" "$1"; }
# lacks OUT PATTERN: there is a page, and nothing in it is like this.
lacks() { [ -s "$1" ] && ! grep -qiE -- "$2" "$1"; }
# count OUT PATTERN N: that many lines are like this.
count() { [ -s "$1" ] && [ "$(grep -ciE -- "$2" "$1")" = "$3" ]; }
# refuses OUT ARGS...: it ends with 2, says why, and prints no page. A program
# that never prints one refuses nothing.
refuses() {
  [ -s "$tmp/page" ] || return 1
  out=$1
  shift
  sh made/page.sh "$@" >"$out" 2>"$out.err" </dev/null
  [ $? = 2 ] && [ ! -s "$out" ] && [ -s "$out.err" ]
}

prints menu.csv "$tmp/page"
printf 'dish;price\n' >"$tmp/none.csv"
prints "$tmp/none.csv" "$tmp/none"
printf 'dish;price\nSoup;4.50\nStew;cheap\n' >"$tmp/bad.csv"

check "the page has a title" holds "$tmp/page" "<title>"
check "there is a row for each dish" count "$tmp/page" '<td>(soup of the day|fish|pasta|rice pudding)' 4
check "prices have two decimals" holds "$tmp/page" "<td>4.50</td>"
check "the page asks for nothing from elsewhere" lacks "$tmp/page" '<script|<link|src=|https?://'
check "the page says its language" holds "$tmp/page" '<html lang="en">'
check "the table has a caption" holds "$tmp/page" "<caption>"
check "each head of a column says that it is one" count "$tmp/page" '<th scope="col">' 2
check "signs of HTML in a name are text" holds "$tmp/page" "Fish &amp; chips"
check "and so are angle brackets" holds "$tmp/page" "Pasta &lt;al dente&gt;"
check "an empty menu says so" holds "$tmp/none" "There is nothing on the menu"
check "a price that is no number is refused" refuses "$tmp/bad" "$tmp/bad.csv"
check "without a menu it says how it is used" refuses "$tmp/use"

echo "passed $passed of $all"
[ "$passed" = "$all" ]
