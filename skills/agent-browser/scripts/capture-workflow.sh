#!/usr/bin/env bash
# Opens a page and prints it, as text or as its document; no file is written:
# capture-workflow.sh [--cdp ENDPOINT] ADDRESS [text|dom]
set -euo pipefail

usage() { echo "capture-workflow.sh: $1; write it as: capture-workflow.sh [--cdp http://127.0.0.1:PORT] ADDRESS [text|dom]" >&2; exit 2; }

endpoint=${AGENT_BROWSER_CDP:-}
case ${1:-} in
  --cdp) [ $# -ge 2 ] || usage "--cdp has no value"; endpoint=$2; shift 2 ;;
  --cdp=*) endpoint=${1#--cdp=}; shift ;;
esac
local_endpoint='^http://(127\.0\.0\.1|localhost|\[::1\]):[0-9]+(/[A-Za-z0-9_-]*)*$'
[ -n "$endpoint" ] || usage "no browser is given, by --cdp or AGENT_BROWSER_CDP"
[[ $endpoint =~ $local_endpoint ]] || usage "the browser has to be on this machine"
[ $# -ge 1 ] && [ $# -le 2 ] || usage "an address is needed"

what=${2:-text}
case $what in
  text | dom) ;;
  *) usage "a page is shown as text or as dom" ;;
esac
[ "$1" = - ] || pagehand --cdp "$endpoint" open "$1"
pagehand --cdp "$endpoint" "$what"
