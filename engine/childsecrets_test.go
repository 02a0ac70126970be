package engine_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"metier/config"
	"metier/engine"
	"metier/record"
)

// deskServer is an MCP server with one tool.
const deskServer = `while IFS= read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) out='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}' ;;
    *'"method":"tools/list"'*) out='{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}]}' ;;
    *) out='{}' ;;
  esac
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$out"
done
`

// Secrets of a run's servers are kept out of the records of subagents and out of logs, as they are
// out of the run's record.
func TestStart_KeepsServerSecretsOutOfSubagentRecords(t *testing.T) {
	t.Parallel()
	const token = "desk-token-0123456789"
	dir := t.TempDir()
	home, ws := filepath.Join(dir, "home"), filepath.Join(dir, "ws")
	write(t, filepath.Join(dir, "server.sh"), deskServer)
	write(t, filepath.Join(ws, "letter.txt"), "The token is "+token+".\n")
	write(t, filepath.Join(home, "profiles", "clerk.yaml"), "name: clerk\ndescription: Reads letters.\ntools: [read_file]\n")
	write(t, filepath.Join(home, ".config", "metier", "config.yaml"), fmt.Sprintf("mcp: {servers: {desk: {command: sh, args: [%s], env: {DESK_TOKEN: '${DESK_TOKEN}'}, readOnly: [look]}}}\n", filepath.Join(dir, "server.sh")))
	env := config.NewEnv([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "DESK_TOKEN=" + token}, ws)
	withToken := 0
	e := engine.New(env, engine.Options{Logger: func(secrets []record.Secret) *slog.Logger {
		if slices.ContainsFunc(secrets, func(s record.Secret) bool { return s.Value == token }) {
			withToken++
		}
		return slog.New(slog.DiscardHandler)
	}})
	defer e.Close()
	p, err := e.Plan(t.Context(), engine.Request{Prompt: "Read.", Artifacts: filepath.Join(dir, "records"), Batch: true, Tools: []string{"read_file"},
		Subagents: []string{"clerk"}, SubagentDirs: []string{filepath.Join(home, "profiles")}, Custom: engine.Custom{Model: replay(`
turns:
  - when: '{{ offered "delegate_task" }}'
    calls: [{tool: delegate_task, args: {profile: clerk, task: Read the letter.}}]
  - when: '{{ not (offered "delegate_task") }}'
    calls: [{tool: read_file, args: {path: letter.txt}}]
  - when: '{{ not (offered "delegate_task") }}'
    say: Read.
  - say: Done.
`)}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if withToken < 2 { // of the record and of the session
		t.Errorf("%d logs keep the secret of the server out, want at least 2", withToken)
	}
	o, err := r.Drive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	redacted := false
	err = filepath.WalkDir(o.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b), token) {
			t.Errorf("%s holds the secret of the server", p)
		}
		redacted = redacted || strings.Contains(string(b), "The token is ")
		return err
	})
	if err != nil || !redacted {
		t.Errorf("no record holds the letter (%v); the run ended as %s: %s", err, o.Status, o.Answer)
	}
}
