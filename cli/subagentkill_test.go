package cli_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"metier/cli"
	"metier/internal/testenv"
	"metier/mcp/host/hosttest"
	"metier/model/modeltest"
)

// struck is a run whose subagent does one thing that lasts until it is ended.
// The process is killed meanwhile.
type struck struct {
	*kin
	acts *os.File // a named pipe: a line for each time that the thing is done
	in   *bufio.Reader
	env  []string // of the process
	told string   // the result of the subagent's call
}

// fifo creates a named pipe, open on both sides.
func fifo(t *testing.T, path string) *os.File {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), testenv.NeedTool(t, "mkfifo", "coreutils"), "-m", "666", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func newStruck(t *testing.T, profile string, act modeltest.Call) *struck {
	t.Helper()
	k := &struck{kin: newKin(t, map[string]string{"config.yaml": "{}\n", "subs/worker.yaml": "name: worker\ndescription: Acts.\n" + profile})}
	k.acts = fifo(t, filepath.Join(k.dir, "acts"))
	k.in = bufio.NewReader(k.acts)
	k.parent = once(delegate(`{"profile":"worker","task":"Act."}`))
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return turnOf(act)
		}
		k.told = strings.Join(r.LastResults(), "\n")
		return modeltest.Turn{Text: "Acted, or not."}
	}
	return k
}

// until reads what was done up to a line, and counts the acts.
func (k *struck) until(line, act string) (n int) {
	k.t.Helper()
	for {
		s, err := k.in.ReadString('\n')
		must(k.t, err)
		s = strings.TrimSpace(s)
		if s == act {
			n++
		}
		if s == line {
			return n
		}
	}
}

// strike starts the run in a separate process, and kills it while the subagent
// acts.
func (k *struck) strike(act string, args ...string) {
	k.t.Helper()
	cmd := exec.Command("online", append([]string{"run", "--output-mode", "batch", "--prompt", "Go.", "--subagent-profiles", "subs", "--allow-subagent-profile", "worker"}, args...)...)
	cmd.Dir, cmd.Env = k.dir, append(append(k.kin.env(), k.env...), "TMPDIR="+k.t.TempDir()) // a killed process leaves its files
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(k.t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_, _ = io.WriteString(k.acts, "ended\n") // if it never acts
	}()
	k.until(act, act)
	_ = cmd.Process.Kill()
	<-ended
	if k.until("ended", act) != 0 || !testenv.Killed(cmd.ProcessState) {
		k.t.Fatalf("it was not killed while it acted: %s\n%s", cmd.ProcessState, out.String())
	}
}

// goesOn resumes the run, and checks how often the thing was done since.
func (k *struck) goesOn(act string, again int, told string) {
	k.t.Helper()
	k.want(0, "run", "--resume", "latest")
	_, err := io.WriteString(k.acts, "over\n")
	must(k.t, err)
	if n := k.until("over", act); n != again {
		k.t.Errorf("it was done %d times more, want %d", n, again)
	}
	if !strings.Contains(k.told, told) {
		k.t.Errorf("the subagent was told %q, want %q", k.told, told)
	}
	if r := k.report("t1.c0"); r.Status != "done" || r.Summary != "Acted, or not." {
		k.t.Error(r)
	}
	if c := k.counts(); c["ended"] != 1 || c["returned "] != 1 {
		k.t.Errorf("%v", c)
	}
	k.want(0, "runs", "show", k.childFolder("t1.c0"))
	if !strings.Contains(k.out.String(), "outcome_unknown") { // of the interrupted try, even if another one followed
		k.t.Errorf("runs show:\n%s", k.out.String())
	}
	k.want(0, "audit", "verify", "latest")
}

// If the process is killed while a subagent's script runs, the script may have finished. So it does
// not run again, and the subagent is told.
func TestAScriptOfASubagentIsNotRunAgainAfterAKill(t *testing.T) {
	t.Parallel()
	needLinux(t)
	for _, target := range []string{"host", "sandbox"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			k := newStruck(t, "skills: [act]\nscripts: [\"project:act:scripts/act.sh\"]\ntools: [run_skill_script]\ntarget: "+target+"\n", modeltest.Call{Tool: "run_skill_script", Args: `{"skill":"act","path":"scripts/act.sh"}`})
			k.write(map[string]string{"skills/act/SKILL.md": "---\nname: act\ndescription: Acts. Use when acts are asked for.\n---\nRun scripts/act.sh.\n",
				"skills/act/scripts/act.sh": "#!/bin/sh\n[ -e again ] || exec 3<hold\necho ran >acts\n[ -e again ] || cat <&3\n"})
			hold := fifo(t, filepath.Join(k.dir, "hold"))
			k.strike("ran", "--skills-root", "skills", "--allow-skill-script", "project:act:scripts/act.sh")
			k.write(map[string]string{"again": ""})
			must(t, hold.Close()) // what still runs ends
			k.goesOn("ran", 0, "outcome_unknown")
		})
	}
}

// A request that was sent may have arrived.
func TestAPageIsNotFetchedAgainByASubagentAfterAKill(t *testing.T) {
	t.Parallel()
	k := newStruck(t, "tools: [web_fetch]\nhosts: [inherit]\n", fetchOf("http://docs.example.com/act"))
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(k.acts, "ran\n")
		if asked.Add(1) == 1 {
			<-r.Context().Done() // until the client is gone
		}
	}))
	t.Cleanup(s.Close)
	at := s.Listener.Addr().String()
	k.env = []string{internetEnv + "=docs.example.com=" + at}
	k.main = func(ctx context.Context, args, env []string, std cli.IO) int {
		return cli.MainOnline(ctx, internet(map[string]string{"docs.example.com": at}), args, env, std)
	}
	k.strike("ran", "--allow-host", "docs.example.com")
	k.goesOn("ran", 0, "outcome_unknown")
}

// A server's tool is called again only if the operator declared it read-only.
func TestAToolOfAServerIsCalledAgainByASubagentWhereItReads(t *testing.T) {
	t.Parallel()
	for tool, c := range map[string]struct {
		again int
		told  string
	}{"look": {1, "The answer is 12."}, "send": {0, "outcome_unknown"}} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			k := newStruck(t, "tools: [mcp__srv__look, mcp__srv__send]\n", serverCall(tool))
			server, err := exec.LookPath("mcpserver")
			must(t, err)
			script := hosttest.Script{Tools: []map[string]any{hosttest.Tool("look"), hosttest.Tool("send")}, Log: filepath.Join(k.dir, "acts"), Hang: []string{"tools/call"},
				Results: map[string]any{"look": hosttest.Words("The answer is 12."), "send": hosttest.Words("sent")}}
			entry := map[string]any{"command": server, "env": map[string]string{hosttest.Variable: filepath.Join(k.dir, "server.json")}, "readOnly": []string{"look"}}
			k.write(map[string]string{"server.json": jsonText(t, script), "servers.json": jsonText(t, map[string]any{"mcpServers": map[string]any{"srv": entry}})})
			k.strike("tools/call "+tool, "--mcp-config", "servers.json", "--allow-tool", "mcp__srv__look", "--allow-tool", "mcp__srv__send")
			script.Hang = nil
			k.write(map[string]string{"server.json": jsonText(t, script)})
			k.goesOn("tools/call "+tool, c.again, c.told)
		})
	}
}
