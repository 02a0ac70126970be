#!/usr/bin/env bash
# Records one run of each kind below testdata/records/runs, with any metier:
#
#   git worktree add /tmp/old COMMIT && cd /tmp/old
#   go build -o /tmp/old/bin/ ./cmd/metier ./cmd/pagehand
#   go test -c -o /tmp/old/bin/metier.test ./cmd/metier
#   testdata/records/record.sh /tmp/old/bin [KIND...]
#
# metier.test is metier that kills itself at the Nth append or rename, for the
# runs that are killed. The browser's run needs chromium, pagehand and python3.
#
# A record holds absolute paths, so all is made in a folder that every machine
# has. cli/recorded_test.go puts the fixtures back there, under the same lock.
set -euo pipefail
shopt -s nullglob

bin=$(cd "$1" && pwd); shift
kept=$(cd "$(dirname "$0")" && pwd)/runs
base=/tmp/metier-recorded
all=(plain phases approval children mcp browser killed-before killed-after limit)
kinds=("${@:-${all[@]}}")

exec 9</tmp
flock 9
rm -rf "$base"
mkdir -m 755 "$base"
away=$(mktemp -d)
trap 'rm -rf "$base" "$away"' EXIT

# metier runs the program with the environment of the tests: see recorded.env.
metier() {
  (cd "$D/ws" && env -i PATH="$PATH" HOME="$D/home" XDG_STATE_HOME="$D/state" XDG_CACHE_HOME="$away/cache" TMPDIR="$away" USER=ada \
    METIER_PRINCIPAL=ada METIER_CONFIG="$D/home/config.yaml" OLLAMA_HOST=127.0.0.1:1 TZ=UTC "${extra[@]}" "$program" "$@" 9>&-)
}

# ends EXIT COMMAND... checks how a command ends.
ends() {
  local want=$1 got=0; shift
  "$@" >"$away/out" 2>&1 || got=$?
  if [ "$got" != "$want" ]; then cat "$away/out"; echo "$kind: exit $got, want $want: $*" >&2; exit 1; fi
}

# start makes the places of a run.
start() {
  D=$base/$kind; program=$bin/metier; extra=()
  mkdir -p -m 755 "$D/ws" "$D/runs" "$D/state" "$D/home"
  : >"$D/home/config.yaml"
  cd "$D"
}

# skill DIR NAME writes a skill.
skill() {
  mkdir -p "$1/$2/references" "$1/$2/scripts"
  printf -- '---\nname: %s\ndescription: Does %s. Use when %s is asked for.\n---\nThe text of %s.\n' "$2" "$2" "$2" "$2" >"$1/$2/SKILL.md"
  echo 'Warm and short.' >"$1/$2/references/tone.md"
}

plain() { # done
  skill ws/skills greet
  cat >ws/run.yaml <<'END'
prompt: Greet Ada in greeting.txt.
skills_root: [skills]
script: turns.yaml
END
  cat >ws/turns.yaml <<'END'
turns:
  - say: I load the skill.
    calls: [{tool: load_skill, args: {name: greet}}]
  - calls:
      - {tool: read_skill_resource, args: {skill: greet, path: references/tone.md}}
      - {tool: write_file, args: {path: ../outside.txt, content: no}}
      - {tool: write_file, args: {path: greeting.txt, content: "Good to see you, Ada.\n"}}
  - say: greeting.txt is written.
END
  ends 0 metier run -f run.yaml --artifact-root "$D/runs"
}

phases() { # the first phase is done, the second one waits for an answer
  skill ws/skills plan; skill ws/skills build
  cat >ws/phases.yaml <<'END'
skills_root: [skills]
prompt: Build the counter.
model: scripted:turns.yaml
output_mode: batch
phases:
  - {name: spec, skill: [plan]}
  - {name: build, skill: [build], allow_tools: [write_file]}
END
  cat >ws/turns.yaml <<'END'
turns:
  - when: '{{ contains "The text of plan" (given) }}'
    say: It counts.
  - calls: [{tool: write_file, args: {path: counter.txt, content: "1\n"}}]
  - say: 'Built: {{ result "write_file" 1 }}'
END
  asks write_file
  ends 7 metier run -f phases.yaml --park --policy "$D/home/policy.yaml" --artifact-root "$D/runs"
}

# asks TOOL... writes a policy that asks a person before these.
asks() {
  { echo 'version: 1'; echo 'rules:'; printf '  - ask: %s\n' "$@"; echo '  - deny: Bash(curl:*)'; echo 'skills:'; echo '  - deny: internal-*'; echo 'approvals_bind_arguments: true'; } >home/policy.yaml
}

approval() { # a script that was named ran; another one waits for an answer
  skill shelf report
  echo 'echo "named $*" >>/workspace/ran.txt' >shelf/report/scripts/named.sh
  echo 'echo "asked $*" >>/workspace/ran.txt' >shelf/report/scripts/asked.sh
  cat >home/config.yaml <<'END'
skills: [{path: ../shelf, tier: third_party, label: shelf}]
allow_tools: [load_skill, run_skill_script]
set: {scripts: tiered}
END
  cat >turns.yaml <<'END'
turns:
  - calls: [{tool: load_skill, args: {name: report}}]
  - calls: [{tool: run_skill_script, args: {skill: report, path: scripts/named.sh, args: [a]}}]
  - calls: [{tool: run_skill_script, args: {skill: report, path: scripts/asked.sh, args: [b, c]}}]
  - say: Counted.
END
  asks web_fetch
  ends 7 metier run --output-mode batch --park --prompt Count. --model scripted:"$D/turns.yaml" --allow-skill-script report:scripts/named.sh \
    --policy "$D/home/policy.yaml" --sandbox native --artifact-root "$D/runs"
}

children() { # one subagent is done, a second one waits for an answer
  skill ws/skills count
  mkdir subs
  cat >subs/counter.yaml <<'END'
name: counter
description: Counts, and writes down what it counted.
skills: [count]
allow_skills: ["count*"]
tools: [read_file, write_file]
max_turns: 6
instructions: Count twice.
END
  echo 'one' >ws/a.txt
  cat >turns.yaml <<'END'
turns:
  - when: '{{ offered "delegate_task" }}'
    calls: [{tool: delegate_task, args: {profile: counter, task: Read.}}]
  - when: '{{ and (not (offered "delegate_task")) (eq (prompt) "Read.") }}'
    calls: [{tool: read_file, args: {path: a.txt}}]
  - when: '{{ and (not (offered "delegate_task")) (eq (prompt) "Read.") }}'
    say: It holds one.
  - when: '{{ offered "delegate_task" }}'
    calls: [{tool: delegate_task, args: {profile: counter, task: Write.}}]
  - when: '{{ and (not (offered "delegate_task")) (eq (prompt) "Write.") }}'
    calls: [{tool: write_file, args: {path: b.txt, content: "two\n"}}]
  - when: '{{ and (not (offered "delegate_task")) (eq (prompt) "Write.") }}'
    say: 'Wrote: {{ result "write_file" 1 }}'
  - say: '{{ result "delegate_task" 1 }} {{ result "delegate_task" 2 }}'
END
  asks write_file
  ends 7 metier run --output-mode batch --park --prompt Go. --model scripted:"$D/turns.yaml" --skills-root skills --subagent-profiles "$D/subs" \
    --allow-subagent-profile counter --allow-tool default --policy "$D/home/policy.yaml" --artifact-root "$D/runs"
}

mcp() { # a tool of a server was called; another one waits for an answer
  echo 'Dear Ada.' >ws/letter.txt
  cat >server.sh <<'END'
# A server over standard input and output: look reads, send acts and says so.
while IFS= read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) out='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}' ;;
    *'"method":"tools/list"'*) out='{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}},{"name":"send","description":"Sends.","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*'"name":"look"'* | *'"name":"look"'*'"method":"tools/call"'*) out='{"content":[{"type":"text","text":"The desk is empty."}]}' ;;
    *'"method":"tools/call"'*) echo sent >>"$SENT"; out='{"content":[{"type":"text","text":"The letter is sent."}]}' ;;
    *) out='{}' ;;
  esac
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$out"
done
END
  cat >servers.json <<END
{"mcpServers": {"desk": {"command": "sh", "args": ["$D/server.sh"], "env": {"SENT": "$D/sent.txt"}, "readOnly": ["look"]}}}
END
  cat >turns.yaml <<'END'
turns:
  - calls: [{tool: mcp__desk__look, args: {}}]
  - calls: [{tool: mcp__desk__send, args: {}}]
  - say: '{{ result "mcp__desk__look" 1 }} {{ result "mcp__desk__send" 1 }}'
END
  asks mcp__desk__send
  ends 7 metier run --output-mode batch --park --prompt Send. --model scripted:"$D/turns.yaml" --mcp-config "$D/servers.json" --allow-tool 'mcp__desk__*' \
    --allow-tool default --policy "$D/home/policy.yaml" --artifact-root "$D/runs"
}

browser() { # a subagent looked at a page of the lent browser, and waits for an answer
  skill ws/skills pages
  cat >ws/skills/pages/scripts/look.sh <<'END'
set -eu
pagehand --cdp "$AGENT_BROWSER_CDP" open "$1"
pagehand --cdp "$AGENT_BROWSER_CDP" text
END
  mkdir subs
  cat >subs/reader.yaml <<'END'
name: reader
description: Reads pages.
skills: [pages]
scripts: ["project:pages:scripts/look.sh"]
tools: [run_skill_script, write_file]
target: host
browser: true
END
  mkdir hand "$away/site"
  cp "$bin/pagehand" hand/
  echo '<title>Order</title><p>One apple.' >"$away/site/index.html"
  local site=8931 port server chrome
  python3 -m http.server --bind 127.0.0.1 --directory "$away/site" $site >/dev/null 2>&1 9>&- & server=$!
  chromium --headless=new --no-sandbox --remote-debugging-port=0 --user-data-dir="$away/profile" --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-dev-shm-usage --no-proxy-server about:blank >/dev/null 2>&1 9>&- & chrome=$!
  until [ -s "$away/profile/DevToolsActivePort" ] && (: </dev/tcp/127.0.0.1/$site) 2>/dev/null; do sleep 0.1; done
  port=$(head -1 "$away/profile/DevToolsActivePort")
  cat >home/config.yaml <<END
browser:
  path: [$D/hand]
  grants: [{script: "project:pages:scripts/look.sh", origin: "http://127.0.0.1:$site"}]
END
  cat >turns.yaml <<END
turns:
  - when: '{{ offered "delegate_task" }}'
    calls: [{tool: delegate_task, args: {profile: reader, task: Read.}}]
  - when: '{{ not (offered "delegate_task") }}'
    calls: [{tool: run_skill_script, args: {skill: pages, path: scripts/look.sh, args: ["http://127.0.0.1:$site/"]}}]
  - when: '{{ not (offered "delegate_task") }}'
    calls: [{tool: write_file, args: {path: page.txt, content: '{{ result "run_skill_script" 1 }}'}}]
  - when: '{{ not (offered "delegate_task") }}'
    calls: [{tool: run_skill_script, args: {skill: pages, path: scripts/look.sh, args: ["http://127.0.0.1:$site/"]}}]
  - when: '{{ not (offered "delegate_task") }}'
    say: '{{ match "its time is over|One apple" (result "run_skill_script" 2) }}'
  - say: '{{ result "delegate_task" 1 }}'
END
  asks write_file
  ends 7 metier run --output-mode batch --park --prompt Read. --model scripted:"$D/turns.yaml" --skills-root skills --subagent-profiles "$D/subs" \
    --allow-subagent-profile reader --allow-skill-script project:pages:scripts/look.sh --allow-tool default --policy "$D/home/policy.yaml" \
    --browser-endpoint "http://127.0.0.1:$port" --browser-origin "http://127.0.0.1:$site" --browser-until 5m --artifact-root "$D/runs"
  kill $chrome $server
  wait $chrome $server || true
  rm -r hand
}

# killed records an edit that was killed while it held WANT in the edited file,
# between the claim and the result.
killed() {
  program=$bin/metier.test
  cat >turns.yaml <<'END'
turns:
  - calls: [{tool: read_file, args: {path: a.txt}}]
  - calls: [{tool: edit_file, args: {path: a.txt, old: one, new: one one}}]
  - say: 'Edited: {{ result "edit_file" 1 }}'
END
  local at last
  for ((at = 1; at < 500; at++)); do
    rm -rf runs state ws
    mkdir -m 755 runs state ws
    echo one >ws/a.txt
    extra=(METIER_TEST_KILL_AT=$at)
    metier run --output-mode batch --prompt Edit. --model scripted:"$D/turns.yaml" --allow-tool default --artifact-root "$D/runs" >"$away/out" 2>&1 && break
    last=$(tail -n 1 runs/*/events.jsonl 2>/dev/null) || continue
    [[ $last == *'"type":"call.started"'*'"id":"t2.c0"'* && $(cat ws/a.txt) == "$1" ]] || continue
    # Before: what is to take the file's place lies beside it.
    if [ "$1" != one ] || [ "$(ls -A ws | wc -l)" -gt 1 ]; then return 0; fi
  done
  echo "$kind: no such point" >&2
  exit 1
}

killed-before() { killed one; }
killed-after() { killed 'one one'; }

limit() { # failed by its limit of turns, with all that a launch can say besides
  skill ws/skills greet; skill ws/skills other
  mkdir far ws/sub
  echo 'From afar.' >far/far.txt
  echo 'From the sub folder.' >ws/sub/near.txt
  cat >turns.yaml <<'END'
turns:
  - calls: [{tool: read_file, args: {path: near.txt}}]
  - calls: [{tool: list_files, args: {path: .}}]
  - calls: [{tool: read_file, args: {path: /far/far.txt}}]
  - say: '{{ result "read_file" 1 }} {{ result "read_file" 2 }}'
END
  ends 1 metier run --output-mode batch --prompt Read. --model scripted:"$D/turns.yaml" --skills-root skills --skill greet --deny-skill other --allow-host example.com \
    --mount name=far,source="$D/far",target=/far,mode=ro --cwd sub --allow-tool default --max-turns 2 --max-tokens 1000000 --artifact-root "$D/runs"
}

for kind in "${kinds[@]}"; do
  start
  "$kind"
  find "$D/runs" -name lock -delete # names this machine, and holds nothing
  rm -rf "${kept:?}/$kind"
  mkdir -p "$kept"
  cp -R "$D" "$kept/$kind"
  find "$kept/$kind" -type d -empty -delete # version control keeps none
  echo "$kind: $(du -sk --apparent-size "$kept/$kind" | cut -f1) kB in $(find "$kept/$kind" -type f | wc -l) files"
done
