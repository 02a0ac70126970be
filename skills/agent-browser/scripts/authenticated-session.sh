#!/usr/bin/env bash
# Signs in on a page with credentials of its environment, LOGIN_USER and
# LOGIN_PASSWORD, which no argument ever holds, and prints what answers:
# authenticated-session.sh [--cdp ENDPOINT] ADDRESS USERFIELD PASSWORDFIELD
set -euo pipefail

usage() { echo "authenticated-session.sh: $1; write it as: authenticated-session.sh [--cdp http://127.0.0.1:PORT] ADDRESS USERFIELD PASSWORDFIELD" >&2; exit 2; }

endpoint=${AGENT_BROWSER_CDP:-}
case ${1:-} in
  --cdp) [ $# -ge 2 ] || usage "--cdp has no value"; endpoint=$2; shift 2 ;;
  --cdp=*) endpoint=${1#--cdp=}; shift ;;
esac
local_endpoint='^http://(127\.0\.0\.1|localhost|\[::1\]):[0-9]+(/[A-Za-z0-9_-]*)*$'
[ -n "$endpoint" ] || usage "no browser is given, by --cdp or AGENT_BROWSER_CDP"
[[ $endpoint =~ $local_endpoint ]] || usage "the browser has to be on this machine"
[ $# -eq 3 ] || usage "an address and the names of two fields are needed"

pagehand --cdp "$endpoint" open "$1"
pagehand --cdp "$endpoint" fill "$2" --env LOGIN_USER
pagehand --cdp "$endpoint" fill "$3" --env LOGIN_PASSWORD
pagehand --cdp "$endpoint" submit "$2"
pagehand --cdp "$endpoint" text
