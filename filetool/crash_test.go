package filetool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/testenv"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// crash is one call in a separate process that is killed at a stage.
type crash struct {
	Stage, Dir, Log string
	Call            metier.Call
}

// TestMain is also the process that gets killed.
func TestMain(m *testing.M) {
	if raw := os.Getenv("METIER_TOOL_CRASH"); raw != "" {
		var c crash
		err := json.Unmarshal([]byte(raw), &c)
		if err == nil {
			atomicfile.SetHook(func(stage, p string) error {
				if stage == c.Stage && filepath.Dir(p) != c.Log {
					testenv.Die(stage)
				}
				return nil
			})
			_, err = c.run(context.Background())
		}
		fmt.Fprintln(os.Stderr, "not killed:", err)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// run opens the session of the log and makes the call.
func (c crash) run(ctx context.Context) (metier.Observation, error) {
	blobs, err := record.OpenBlobs(filepath.Join(c.Log, "blobs"), nil)
	if err != nil {
		return metier.Observation{}, err
	}
	log, err := record.OpenFile(filepath.Join(c.Log, "events.jsonl"), &record.Options{Blobs: blobs})
	if err != nil {
		return metier.Observation{}, err
	}
	defer log.Close()
	ws, err := OpenWorkspace(c.Dir, nil)
	if err != nil {
		return metier.Observation{}, err
	}
	defer ws.Close()
	s, err := metier.Open(ctx, metier.Config{ID: "s", Log: log, Blobs: blobs, Tools: Files(ws, Options{}),
		Grants: policy.Grants{Mode: policy.Disabled, Tools: []string{settings.ToolWriteFile, settings.ToolEditFile}, Narrow: policy.NarrowIgnore}})
	if err != nil {
		return metier.Observation{}, err
	}
	return s.Call(ctx, c.Call)
}

// dies runs the call in a child that is killed, and checks that it was.
func (c crash) dies(t *testing.T) {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "METIER_TOOL_CRASH="+string(raw))
	out, err := cmd.CombinedOutput()
	if !testenv.DiedAt(cmd.ProcessState, out, c.Stage) {
		t.Fatalf("not killed at %s: %v: %s", c.Stage, err, out)
	}
}

func TestKilledWriteIsDoneExactlyOnce(t *testing.T) {
	t.Parallel()
	calls := map[string]metier.Call{
		"edit that is not idempotent": {Tool: "edit_file", Args: json.RawMessage(`{"path":"d/f","old":"a","new":"aa"}`)},
		"write over":                  {Tool: "write_file", Args: json.RawMessage(`{"path":"d/f","content":"aa"}`)},
		"write new":                   {Tool: "write_file", Args: json.RawMessage(`{"path":"new/deep/f","content":"aa"}`)},
	}
	for name, call := range calls {
		for _, stage := range []string{atomicfile.BeforeWrite, atomicfile.AfterWrite, atomicfile.BeforeRename, atomicfile.AfterRename} {
			for _, then := range []string{"", "changed by others"} {
				t.Run(name+" "+stage+" "+then, func(t *testing.T) {
					t.Parallel()
					e := newEnv(t, setup{}, map[string]string{"d/f": "a"})
					file := "d/f"
					if name == "write new" {
						file = "new/deep/f"
					}
					c := crash{Stage: stage, Dir: e.dir, Log: e.out, Call: call}
					c.Call.ID = "t1.c1"
					c.dies(t)
					want, code := "aa", ""
					if then != "" {
						e.put(file, then)
						want, code = then, "conflict"
					}
					c.Call.Try = 1
					for range 2 { // the second call returns the recorded result
						o, err := c.run(t.Context())
						if err != nil || o.Code() != code {
							t.Fatalf("%v %q %s", err, o.Code(), o.Text())
						}
					}
					if got := e.content(file); got != want {
						t.Errorf("content %q, want %q", got, want)
					}
					e.noLeftovers()
				})
			}
		}
	}
}

func TestOpenPlace_KeepsTheFileOfAnotherSession(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"f": "a"})
	target, err := e.ws.Resolve("f", true)
	if err != nil {
		t.Fatal(err)
	}
	first, err := openPlace(target, "one", "t1.c1", false)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if err := first.fill([]byte("b")); err != nil {
		t.Fatal(err)
	}
	second, err := openPlace(target, "two", "t1.c1", false)
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	if _, err := first.dir.Lstat(first.temp); err != nil {
		t.Errorf("the same call of another session removed the file: %v", err)
	}
}

func TestLeftoverOfTheSameCallIsCleared(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"d/f": "a"})
	c := crash{Stage: atomicfile.AfterWrite, Dir: e.dir, Log: e.out, Call: metier.Call{ID: "t1.c1", Tool: "edit_file", Args: json.RawMessage(`{"path":"d/f","old":"a","new":"aa"}`)}}
	c.dies(t)
	if left, err := filepath.Glob(filepath.Join(e.dir, "d", ".metier-*.tmp")); err != nil || len(left) != 1 {
		t.Fatalf("leftovers %v, %v; the test proves nothing", left, err)
	}
	e.put("d/f", "theirs")
	c.Call.Try = 1
	if o, err := c.run(t.Context()); err != nil || o.Code() != "conflict" {
		t.Fatalf("%v %s", err, o.Text())
	}
	e.noLeftovers()
}
