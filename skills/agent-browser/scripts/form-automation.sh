#!/usr/bin/env bash
# Opens a page, fills fields of its form, sends it, and prints what answers:
# form-automation.sh [--cdp ENDPOINT] ADDRESS NAME=VALUE...
set -euo pipefail

usage() { echo "form-automation.sh: $1; write it as: form-automation.sh [--cdp http://127.0.0.1:PORT] ADDRESS NAME=VALUE..." >&2; exit 2; }

endpoint=${AGENT_BROWSER_CDP:-}
case ${1:-} in
  --cdp) [ $# -ge 2 ] || usage "--cdp has no value"; endpoint=$2; shift 2 ;;
  --cdp=*) endpoint=${1#--cdp=}; shift ;;
esac
local_endpoint='^http://(127\.0\.0\.1|localhost|\[::1\]):[0-9]+(/[A-Za-z0-9_-]*)*$'
[ -n "$endpoint" ] || usage "no browser is given, by --cdp or AGENT_BROWSER_CDP"
[[ $endpoint =~ $local_endpoint ]] || usage "the browser has to be on this machine"
[ $# -ge 2 ] || usage "an address and at least one field are needed"

pagehand --cdp "$endpoint" open "$1"
shift
for field in "$@"; do
  case $field in
    ?*=*) pagehand --cdp "$endpoint" fill "${field%%=*}" "${field#*=}" ;;
    *) usage "a field is written as NAME=VALUE" ;;
  esac
done
pagehand --cdp "$endpoint" submit "${1%%=*}"
pagehand --cdp "$endpoint" text
