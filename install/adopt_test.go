package install_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/install"
)

// hashes are what the npm package skills 1.5.18 computed for the skills of newOthers.
var hashes = map[string]string{
	"docx": "cfceb5ff0f7313c99b303967445c7da37c03af1a3b51ebbce9a86330a48fbab8",
	"pdf":  "8b3d4409232fb9d27549cd96f0292a549b9d7a48db12f4b2001b6e74c43f4b4c",
}

// newOthers returns a place with a folder of sources.
func newOthers(t *testing.T) place {
	t.Helper()
	p := newPlace(t)
	p.write(map[string]string{
		"pdf/SKILL.md":      "---\nname: pdf\ndescription: Read PDF files.\n---\nbody\n",
		"docx/SKILL.md":     "---\nname: docx\ndescription: Read Word files.\n---\nbody\n",
		"docx/scripts/a.sh": "echo 1\n",
	})
	return p
}

func (p place) skillsLock() string { return filepath.Join(filepath.Dir(p.dir), "skills-lock.json") }

// put writes a file beside the store.
func (p place) put(file, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func TestApply_KeepsTheLockOfSkills(t *testing.T) {
	t.Parallel()
	p := newOthers(t)
	p.put(p.skillsLock(), `{"version": 1, "skills": {"z": {"source": "a/b", "sourceType": "github", "later": [1]}}}`)
	s := p.open()
	p.add(s)
	read := func() (out struct {
		Skills map[string]map[string]any `json:"skills"`
	}) {
		raw, err := os.ReadFile(p.skillsLock())
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := map[string]map[string]any{
		"docx": {"source": p.in, "sourceType": "local", "computedHash": hashes["docx"]},
		"pdf":  {"source": p.in, "sourceType": "local", "computedHash": hashes["pdf"]},
		"z":    {"source": "a/b", "sourceType": "github", "later": []any{1.0}},
	}
	if diff := cmp.Diff(want, read().Skills); diff != "" {
		t.Errorf("after add (-want +got):\n%s", diff)
	}
	plan, err := s.Remove(t.Context(), []string{"pdf", "docx"}, false)
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(want, "pdf")
	delete(want, "docx")
	if diff := cmp.Diff(want, read().Skills); diff != "" {
		t.Errorf("after remove (-want +got):\n%s", diff)
	}
}

func TestAdopt_TakesSourcesFromOtherInstallers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	for _, name := range []string{"github", "gitlab", "git", "local", "site", "opened", "own"} {
		p.put(filepath.Join(p.dir, name, "SKILL.md"), skill(name, ""))
	}
	p.put(filepath.Join(p.dir, "opened/.openskills.json"), `{"source": "acme/skills/opened", "sourceType": "git", "repoUrl": "https://github.com/acme/skills", "subpath": "opened", "installedAt": "2026-01-01T00:00:00.000Z"}`)
	p.put(p.skillsLock(), `{"version": 1, "skills": {
		"github": {"source": "acme/skills", "sourceType": "github", "ref": "v1", "skillPath": "skills/github/SKILL.md", "computedHash": "0"},
		"gitlab": {"source": "acme/skills", "sourceUrl": "https://gitlab.com/acme/skills.git", "sourceType": "gitlab", "skillPath": "SKILL.md", "computedHash": "0"},
		"git": {"source": "git@git.example.com:acme/skills.git", "sourceUrl": "git@git.example.com:acme/skills.git", "sourceType": "git", "computedHash": "0"},
		"local": {"source": "/srv/skills", "sourceType": "local", "computedHash": "0"},
		"site": {"source": "skills.example.com", "sourceUrl": "https://skills.example.com", "sourceType": "well-known", "computedHash": "0"}}}`)
	plan, err := s.Adopt(t.Context(), nil)
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]install.Source{}
	for name, e := range s.Lock().Skills {
		got[name] = e.Source
	}
	if diff := cmp.Diff(map[string]install.Source{
		"github": {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "v1", Path: "skills/github"},
		"gitlab": {Kind: install.Git, Location: "https://gitlab.com/acme/skills"},
		"git":    {Kind: install.Git, Location: "git@git.example.com:acme/skills"},
		"local":  {Kind: install.Folder, Location: "/srv/skills"},
		"site":   {Kind: install.Index, Location: "https://skills.example.com", Path: "site"},
		"opened": {Kind: install.Git, Location: "https://github.com/acme/skills", Path: "opened"},
		"own":    {Kind: install.Folder, Location: "./skills/own"},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, state := range p.states(s) {
		if diff := cmp.Diff(install.Intact, state); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
