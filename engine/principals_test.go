package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/policy"
	"metier/run"
)

// Principals of one process share nothing: each has its own grants, secret, and answer to the same
// question, and no record contains another's data.
func TestEngine_PrincipalsShareNothing(t *testing.T) {
	t.Parallel()
	const principals = 50
	shelf := t.TempDir()
	for name, text := range map[string]string{
		"count/SKILL.md": "---\nname: count\ndescription: Count. Use when asked.\n---\nCount.\n",
		"secret.txt":     "",
	} {
		write(t, filepath.Join(shelf, name), text)
	}
	var all sync.WaitGroup
	for i := range principals {
		all.Go(func() {
			if err := principal(t, i, shelf); err != nil {
				t.Errorf("principal %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

func secretOf(i int) string { return fmt.Sprintf("secret-of-%03d-0123456789", i) }

// principal runs one user's requests, and looks for data of another user.
func principal(t *testing.T, i int, shelf string) error {
	name, dir := fmt.Sprintf("user%03d", i), t.TempDir()
	write(t, filepath.Join(dir, "home", ".config", "metier", "config.yaml"), "skills: [{path: "+shelf+", tier: user}]\nsecrets: [{skill: 'user:count', name: TOKEN, env: TOKEN}]\n")
	write(t, filepath.Join(dir, "ws", "own.txt"), "the file of "+name+" holds "+secretOf(i)+"\n")
	env := config.NewEnv([]string{"HOME=" + filepath.Join(dir, "home"), "METIER_PRINCIPAL=" + name, "TOKEN=" + secretOf(i)}, filepath.Join(dir, "ws"))
	e := engine.New(env, engine.Options{})
	defer e.Close()
	asked, err := metier.FuncTool("ask_"+name, "Ask.", policy.SideEffect, func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return name + " was asked " + in.Text, nil
	})
	if err != nil {
		return err
	}
	custom := engine.Custom{Tools: []metier.Tool{asked}, Model: replay(fmt.Sprintf(`
turns:
  - calls: [{tool: load_skill, args: {name: count}}, {tool: read_file, args: {path: own.txt}}, {tool: ask_%s, args: {text: hello}}, {tool: read_file, args: {path: "%s/secret.txt"}}]
  - say: "{{ result \"ask_%s\" 1 }}"
`, name, shelf, name))}
	p, err := e.Plan(t.Context(), engine.Request{Surface: "test", Prompt: "I am " + name + ".", Artifacts: filepath.Join(dir, "records"), Custom: custom, Model: "custom:" + name, Tools: []string{"load_skill", "read_file"}})
	if err != nil {
		return err
	}
	answered := 0
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{Ask: func(_ context.Context, q engine.Question) (policy.Answer, error) {
		answered++
		return policy.Answer{Question: q.ID, Allow: i%2 == 0, Scope: policy.ScopeOnce, By: name}, nil
	}})
	if err != nil {
		return err
	}
	o, err := r.Drive(t.Context())
	if err := r.Close(t.Context()); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if diff := cmp.Diff(name+" was asked hello", o.Answer); diff != "" {
		return fmt.Errorf("answer (-want +got):\n%s", diff)
	}
	if answered != 1 {
		return fmt.Errorf("it was asked %d questions, want 1", answered)
	}
	if denied := len(o.Denied) > 0; denied != (i%2 == 1) {
		return fmt.Errorf("denied calls: %v", o.Denied)
	}
	return onlyOf(t, i, o.Dir)
}

// onlyOf looks for names and secrets in a record.
func onlyOf(t *testing.T, i int, dir string) error {
	v, err := run.VerifyAt(t.Context(), filepath.Dir(dir), filepath.Base(dir), nil)
	if err != nil {
		return err
	}
	if b, err := json.Marshal(v); err != nil || strings.Contains(string(b), "altered\":true") {
		return fmt.Errorf("verify: %s, %v", b, err)
	}
	return filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		text := string(b)
		if strings.Contains(text, secretOf(i)) {
			return fmt.Errorf("%s holds the secret", p)
		}
		for _, other := range strings.Split(text, "user")[1:] {
			if len(other) >= 3 && other[:3] >= "000" && other[:3] <= "999" && other[:3] != fmt.Sprintf("%03d", i) {
				return fmt.Errorf("%s names user%s", p, other[:3])
			}
		}
		return nil
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
