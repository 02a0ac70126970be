package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/sandbox"
)

// showing is a sandbox that shows a folder of the host.
type showing struct {
	remote
	dir string
}

func (s showing) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Backend: "showing", Available: true, Level: sandbox.L2, Visible: []string{s.dir}}
}

// Tokens, secrets, records, and state are hidden in the workspace only, so a run does not start
// programs that would see them at their own path.
func TestOpen_RefusesClosedPathsThatProgramsSee(t *testing.T) {
	t.Parallel()
	const code = "closed_path_visible"
	type result struct{ Code, Field string }
	for name, c := range map[string]struct {
		set  func(dir string, env *[]string, q *engine.Request)
		want result
	}{
		"nothing": {func(string, *[]string, *engine.Request) {}, result{}},
		"tokens": {func(dir string, _ *[]string, q *engine.Request) {
			q.Closed = []string{filepath.Join(dir, "etc", "tokens")}
		},
			result{code, "Request.Closed"}},
		"tokens without programs": {func(dir string, _ *[]string, q *engine.Request) {
			q.Closed, q.Tools = []string{filepath.Join(dir, "tokens")}, nil
		}, result{}},
		"a secret": {func(dir string, env *[]string, _ *engine.Request) {
			file := filepath.Join(dir, "..", "config.yaml")
			write(t, file, "secrets: [{skill: report, name: KEY, file: shown/key}]\n")
			*env = append(*env, "METIER_CONFIG="+file)
		}, result{code, ""}},
		"records": {func(dir string, _ *[]string, q *engine.Request) { q.Artifacts = filepath.Join(dir, "runs") },
			result{code, "Request.Artifacts"}},
		"records of the workspace": {func(dir string, _ *[]string, q *engine.Request) {
			q.Workspace = filepath.Join(dir, "src")
			write(t, filepath.Join(q.Workspace, ".metier", "runs", "x", "events.jsonl"), "")
		}, result{code, "Request.Artifacts"}},
		"state": {func(dir string, env *[]string, _ *engine.Request) { *env = append(*env, "XDG_STATE_HOME="+dir) }, result{code, ""}},
		"index": {func(dir string, env *[]string, _ *engine.Request) { *env = append(*env, "METIER_INDEX="+dir) }, result{code, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := filepath.Join(t.TempDir(), "shown"), []string{"HOME=" + t.TempDir()}
			q := engine.Request{Workspace: t.TempDir(), Artifacts: t.TempDir(), Tools: []string{"bash"}, Custom: engine.Custom{Sandbox: showing{dir: dir}}}
			c.set(dir, &env, &q)
			e := engine.New(config.NewEnv(env, t.TempDir()), engine.Options{})
			p, _, err := e.PlanTools(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			var got result
			r, err := e.Open(t.Context(), p, engine.Hooks{})
			if err == nil {
				err = r.Close(t.Context())
			}
			if m := (*metier.Error)(nil); errors.As(err, &m) {
				got = result{m.Code, m.Field}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Open: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
