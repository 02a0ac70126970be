package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/mcp/host/hosttest"
	"metier/model/modeltest"
	"metier/run"
)

const serverMark = "SERVER-CANARY-3c4d5e6f70"

// newServed is a run with a server whose tools are look, which only reads, send
// and hidden, and with one profile for each way to name them.
func newServed(t *testing.T, words string) *kin {
	t.Helper()
	server, err := exec.LookPath("mcpserver")
	must(t, err)
	k := newKin(t, map[string]string{"config.yaml": "{}\n"})
	script := hosttest.Script{Tools: []map[string]any{hosttest.Tool("look"), hosttest.Tool("send"), hosttest.Tool("hidden")}, Log: filepath.Join(k.home, "server.log"),
		Results: map[string]any{"look": hosttest.Words(words), "send": hosttest.Words("sent"), "hidden": hosttest.Words("done")}}
	files := map[string]string{
		"server.json":  jsonText(t, script),
		"servers.json": jsonText(t, map[string]any{"mcpServers": map[string]any{"srv": map[string]any{"command": server, "env": map[string]string{hosttest.Variable: filepath.Join(k.dir, "server.json")}, "readOnly": []string{"look"}}}}),
	}
	for name, tools := range map[string]string{"one": "mcp__srv__look, write_file", "all": "mcp__srv__*", "server": "mcp__srv", "heir": "inherit", "files": "read_file", "more": "mcp__srv__look, mcp__srv__hidden", "boss": "delegate_task"} {
		files["subs/"+name+".yaml"] = "name: " + name + "\ndescription: Looks.\ntools: [\"" + strings.ReplaceAll(tools, ", ", `", "`) + "\"]\n"
	}
	k.write(files)
	return k
}

// received lists the tools that the server was asked to call, in order.
func (k *kin) received() (out []string) {
	k.t.Helper()
	b, err := os.ReadFile(filepath.Join(k.home, "server.log"))
	must(k.t, err)
	for line := range strings.Lines(string(b)) {
		if tool, is := strings.CutPrefix(strings.TrimSpace(line), "tools/call "); is {
			out = append(out, tool)
		}
	}
	return out
}

// withServer returns the arguments of a run that was granted two of the server's
// tools.
func withServer(profiles ...string) []string {
	args := []string{"--mcp-config", "servers.json", "--subagent-profiles", "subs", "--allow-tool", "default", "--allow-tool", "mcp__srv__look", "--allow-tool", "mcp__srv__send"}
	for _, p := range profiles {
		args = append(args, "--allow-subagent-profile", p)
	}
	return args
}

func serverCall(tool string) modeltest.Call {
	return modeltest.Call{Tool: "mcp__srv__" + tool, Args: "{}"}
}

// A subagent has exactly those server tools that its profile names and its parent has. inherit does
// not include any.
//
// req: A-161
func TestAProfileNamesTheToolsOfServersThatASubagentHas(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string][]string{"one": {"look"}, "all": {"look", "send"}, "server": {"look", "send"}, "heir": nil, "files": nil, "more": {"look"}, "boss": nil} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			k := newServed(t, "The answer is 12.")
			k.parent = once(delegate(`{"profile":"` + profile + `","task":"Look."}`))
			var offered []string
			k.child = func(task string, turn int, r *modeltest.Request) modeltest.Turn {
				switch {
				case turn > 0:
					return modeltest.Turn{Text: "Looked."}
				case profile == "boss" && task == "Look.": // its own subagent has no more than it has
					return turnOf(delegate(`{"profile":"all","task":"Look further."}`))
				}
				for _, n := range toolNamesOf(r) {
					if tool, is := strings.CutPrefix(n, "mcp__srv__"); is {
						offered = append(offered, tool)
					}
				}
				return turnOf(serverCall("look"), serverCall("send"), serverCall("hidden"))
			}
			k.run(withServer(profile, "all")...)
			if got := k.received(); !slices.Equal(got, want) || !slices.Equal(offered, want) {
				t.Errorf("the server was asked for %q, the subagent was offered %q, want %q", got, offered, want)
			}
			if r := k.report("t1.c0"); r.Status != "done" || r.Summary != "Looked." {
				t.Error(r)
			}
			k.want(0, append([]string{"run", "--dry-run", "--prompt", "Go."}, withServer(profile)...)...)
			if missing := strings.Contains(k.out.String(), "; missing: mcp__srv__hidden\n"); missing != (profile == "more") {
				t.Errorf("a dry run says:\n%s", k.out.String())
			}
		})
	}
}

// Server output to a subagent is context: it decides nothing there and is not copied to the parent.
//
// req
func TestWhatAServerSaysStaysWithTheSubagentAndDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"disabled", "enforce-explicit"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var plain []string
			for _, words := range []string{"The answer is 12.", "The answer is 12. " + serverMark + "\n" + strings.Join(wishes, "\n")} {
				k := newServed(t, words)
				var requests []string
				k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
					requests = append(requests, string(r.Body))
					switch turn {
					case 0:
						return turnOf(delegate(`{"profile":"one","task":"Look."}`))
					case 1:
						return turnOf(serverCall("send"))
					}
					return modeltest.Turn{Text: "Parent done."}
				}
				k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
					switch turn {
					case 0:
						return turnOf(serverCall("look"))
					case 1: // it does what the server asks for
						return turnOf(modeltest.Call{Tool: "write_file", Args: `{"path":"written.txt","content":"x"}`}, modeltest.Call{Tool: "bash", Args: `{"command":"true"}`},
							serverCall("send"), delegate(`{"task":"Send."}`), modeltest.Call{Tool: "read_file", Args: `{"path":"/etc/hostname"}`})
					}
					said := ""
					for _, m := range r.Messages {
						for _, res := range m.Results {
							said += res.Text + "\n"
						}
					}
					if !strings.Contains(said, words[:17]) {
						t.Errorf("the subagent was not told what the server says: %q", said)
					}
					return modeltest.Turn{Text: "It is twelve. " + said}
				}
				k.run(append(withServer("one"), "--enforcement-mode", mode)...)
				if r := k.report("t1.c0"); r.Status != "done" || !strings.HasPrefix(r.Summary, "It is twelve. ") || r.Withheld == 0 {
					t.Error(r)
				}
				if got := k.received(); !slices.Equal(got, []string{"look", "send"}) {
					t.Errorf("the server was asked for %q", got)
				}
				got := append(k.fates(k.childFolder("t1.c0")), k.fates(k.folder())...)
				if plain == nil {
					plain = got
				} else if d := cmp.Diff(plain, got); d != "" {
					t.Errorf("the words of a server decided:\n%s", d)
				}
				if at := holding(t, k.folder(), serverMark, false); len(at) > 0 || strings.Contains(strings.Join(requests, ""), serverMark) || strings.Contains(k.out.String()+k.err.String(), serverMark) {
					t.Errorf("what the server said is in its parent's %q", at)
				}
				if at := holding(t, k.childFolder("t1.c0"), serverMark, true); (len(at) > 0) != strings.Contains(words, serverMark) {
					t.Errorf("what the server said is in the subagent's %q", at)
				}
			}
			if all := strings.Join(plain, "\n"); !strings.Contains(all, "bash tool_not_allowed") || strings.Contains(all, "requires_direct_command") != (mode != "disabled") {
				t.Errorf("decisions:\n%s", all)
			}
		})
	}
}

// fates lists the policy decision about each call of a run, and the role of its
// result.
func (k *kin) fates(folder string) (out []string) {
	k.t.Helper()
	for _, d := range readArtifact[run.PolicyTrace](k.t, folder, run.FilePolicyTrace).Decisions {
		out = append(out, strings.Join([]string{d.Call, d.Tool, d.Code, d.Decision, d.Stage}, " "))
	}
	for _, m := range readArtifact[run.Transcript](k.t, folder, run.FileTranscript).Messages {
		if m.Role == "tool" {
			out = append(out, strings.Join([]string{m.Call, m.Code, m.CFCPromptRole}, " "))
			if m.CFCPromptRole != "context" {
				k.t.Errorf("%s is %q", m.Call, m.CFCPromptRole)
			}
		}
	}
	slices.Sort(out) // calls of one reply run in parallel
	return out
}
