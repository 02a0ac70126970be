#!/bin/sh
# Builds the example twice, with its skills and without, and runs the project's
# own tests on both. Nothing else differs: one model, one set of phases, the
# same tools.
#
#   sh compare.sh [--model PROVIDER:NAME] [--keep DIR]
#
# Without --model the turns of model.yaml are replayed, which needs no key and
# no network and measures nothing. METIER names the program (default: metier).
# Ends with 0 when both were built and tested, with 1 when a build failed, and
# with 6 where there is no sandbox to run the tests in.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
metier=${METIER:-metier}
model=scripted:$here/model.yaml
work=
while [ $# -gt 0 ]; do
  case $1 in
  --model | --keep)
    [ $# -ge 2 ] || { echo "compare.sh: $1 wants a value" >&2; exit 2; }
    if [ "$1" = --model ]; then model=$2; else work=$2; fi
    shift 2
    ;;
  *)
    echo "usage: sh compare.sh [--model PROVIDER:NAME] [--keep DIR]" >&2
    exit 2
    ;;
  esac
done
if [ -z "$work" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
elif ! mkdir "$work"; then
  echo "compare.sh: --keep wants a folder that is not there yet" >&2
  exit 2
fi
work=$(cd "$work" && pwd)

# The file without skills is made from the one with them, so that nothing else
# can come to differ.
sed '/^ *skill: /d' "$here/run.yaml" >"$work/without.yaml"
cp "$here/run.yaml" "$work/with.yaml"
if ! grep -q '^ *skill: ' "$work/with.yaml" || grep -q 'skill:' "$work/without.yaml"; then
  echo "compare.sh: run.yaml has its skills in another form than one line 'skill: [...]'" >&2
  exit 2
fi

# build NAME FLAGS...: a copy of the project goes through all phases.
build() {
  name=$1
  shift
  mkdir "$work/$name"
  cp -R "$here/project/." "$work/$name/"
  rm -rf "$work/$name/made" "$work/$name/.metier"
  status=0
  "$metier" run -f "$work/$name.yaml" --workspace "$work/$name" --skills-root "$here/skills" --model "$model" --output-mode batch --json "$@" \
    >"$work/$name.json" 2>"$work/$name.err" </dev/null || status=$?
}

# try NAME: the customer's tests, as they came, in the sandbox.
try() {
  rm -rf "$work/$1/tests"
  cp -R "$here/project/tests" "$work/$1/tests"
  code=0
  "$metier" sandbox run --workspace "$work/$1" -- sh tests/run.sh >"$work/$1.tests" 2>"$work/$1.tests.err" </dev/null || code=$?
  score=$(sed -n 's/^passed \([0-9]*\) of \([0-9]*\)$/\1 of \2/p' "$work/$1.tests" | tail -n 1)
}

failed=0
row() {
  tokens=$(sed -n 's/^ *"tokens": \([0-9]*\),*$/\1/p' "$work/$1.json" | awk '{ n += $1 } END { print n + 0 }')
  built=done
  if [ "$status" != 0 ]; then
    failed=1
    built="failed: $(sed -n 's/.*"message":"\([^"\\]*\).*/\1/p' "$work/$1.err" | tail -n 1)"
  fi
  printf '%-16s %-12s %-10s %s\n' "$1 skills" "${score:-not run}" "$tokens" "$built"
}

printf '%-16s %-12s %-10s %s\n' '' 'tests passed' tokens build
for name in with without; do
  if [ "$name" = with ]; then build with; else build without --no-skill-catalog; fi
  try "$name"
  row "$name"
  if [ -z "$score" ]; then
    cat "$work/$name.tests.err" >&2
    [ "$code" = 0 ] || exit "$code"
    exit 1
  fi
done
case $model in
scripted:*)
  echo
  echo "The model was scripted: its turns were written by hand to show how this works."
  echo "This is not a measurement. To measure, use --model PROVIDER:NAME."
  ;;
esac
exit "$failed"
