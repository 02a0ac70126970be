set -eu
pagehand --cdp "$AGENT_BROWSER_CDP" open "$1"
pagehand --cdp "$AGENT_BROWSER_CDP" text
