package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/internal/atomicfile"
)

// place is a store in a folder that a test made, and a folder of sources.
type place struct {
	t             *testing.T
	dir, lock, in string
}

func newPlace(t *testing.T) place {
	t.Helper()
	return placeIn(t, t.TempDir())
}

func placeIn(t *testing.T, base string) place {
	return place{t, filepath.Join(base, "skills"), filepath.Join(base, "metier.lock"), filepath.Join(base, "from")}
}

// options are those with which the store is opened.
func (p place) options() install.Options {
	return install.Options{Key: p.key(), Dir: p.dir, Lock: p.lock, Base: filepath.Dir(p.dir), SkillsLock: p.skillsLock(), KeepSkillsLock: true, AgentDir: p.agentDir, Now: func() time.Time { return time.Unix(0, 0) }}
}

func (p place) open() *install.Store {
	p.t.Helper()
	s, err := install.Open(p.t.Context(), p.options())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { s.Close() })
	return s
}

func (p place) agentDir(name string) (string, error) {
	return filepath.Join(filepath.Dir(p.dir), "."+name, "skills"), nil
}

// write writes the files of a source.
func (p place) write(files map[string]string) {
	p.t.Helper()
	for name, text := range files {
		file := filepath.Join(p.in, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p place) request() install.Request {
	return install.Request{Source: install.Source{Kind: install.Folder, Location: p.in}, All: true}
}

func (p place) prepare(s *install.Store, r install.Request) (*install.Plan, error) {
	p.t.Helper()
	return s.Prepare(p.t.Context(), r, p.settings())
}

// add installs everything in the folder of sources.
func (p place) add(s *install.Store) {
	p.t.Helper()
	plan, err := p.prepare(s, p.request())
	if err == nil {
		err = plan.Apply(p.t.Context())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// states returns the state of each skill.
func (p place) states(s *install.Store) map[string]install.State {
	p.t.Helper()
	list, err := s.Verify(p.t.Context(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[string]install.State{}
	for _, v := range list {
		out[v.Name] = v.State
	}
	return out
}

func skill(name, body string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n" + body + "\n"
}

// req: C-075
func TestApply_InstallsACopyOfAFolder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "Read."), "pdf/scripts/run.sh": "#!/bin/sh\necho 1\n", "pdf/references/a/b.md": "b"})
	if err := os.Chmod(filepath.Join(p.in, "pdf/scripts/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := p.open()
	p.add(s)
	if diff := cmp.Diff(tree(t, filepath.Join(p.in, "pdf")), tree(t, filepath.Join(p.dir, "pdf"))); diff != "" {
		t.Errorf("the copy differs (-source +copy):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]install.State{"pdf": install.Intact}, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lock"}, names(t, filepath.Join(p.dir, ".metier/install"))); diff != "" {
		t.Errorf("what was staged is left (-want +got):\n%s", diff)
	}
}

// tree returns the mode and text of each file in a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(rel)] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPrepare_RefusesWhatItWouldReplace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(place)
		code  string
	}{
		"foreign": {func(p place) {
			os.MkdirAll(filepath.Join(p.dir, "docx"), 0o755)
			p.write(map[string]string{"docx/SKILL.md": skill("docx", "")})
			os.WriteFile(filepath.Join(p.dir, "docx/SKILL.md"), []byte(skill("docx", "other")), 0o644)
		}, "skill_exists"},
		"modified": {func(p place) {
			os.WriteFile(filepath.Join(p.dir, "pdf/SKILL.md"), []byte(skill("pdf", "mine")), 0o644)
			p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "new")})
		}, "skill_modified"},
		"link":    {func(p place) { os.Symlink("/etc/passwd", filepath.Join(p.in, "pdf/notes")) }, "skill_file_refused"},
		"invalid": {func(p place) { p.write(map[string]string{"docx/SKILL.md": "---\nname: [\n---\n"}) }, "skill_rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "Read.")})
			s := p.open()
			p.add(s)
			tc.spoil(p)
			before := tree(t, p.dir)
			_, err := p.prepare(s, p.request())
			if diff := cmp.Diff(tc.code, metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(before, tree(t, p.dir)); diff != "" {
				t.Errorf("the store changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestVerify_NamesEachDifference(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", ""), "pdf/a.md": "a", "docx/SKILL.md": skill("docx", "")})
	s := p.open()
	p.add(s)
	for _, change := range []error{
		os.WriteFile(filepath.Join(p.dir, "pdf/a.md"), []byte("b"), 0o644), os.WriteFile(filepath.Join(p.dir, "pdf/new.md"), nil, 0o644),
		os.RemoveAll(filepath.Join(p.dir, "docx")),
		os.Mkdir(filepath.Join(p.dir, "own"), 0o755), os.WriteFile(filepath.Join(p.dir, "own/SKILL.md"), []byte(skill("own", "")), 0o644),
	} {
		if change != nil {
			t.Fatal(change)
		}
	}
	if diff := cmp.Diff(map[string]install.State{"docx": install.Missing, "own": install.Unlocked, "pdf": install.Modified}, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list, err := s.Verify(t.Context(), []string{"pdf"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]install.FileChange{{Path: "a.md", Action: install.Replace}, {Path: "new.md", Action: install.Add}}, list[0].Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", ""), "docx/SKILL.md": skill("docx", "")})
	s := p.open()
	p.add(s)
	plan, err := s.Remove(t.Context(), []string{"pdf"}, false)
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]install.State{"docx": install.Intact}, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOpen_CompletesADecidedChange stops a change at each write. When the store is opened again, it
// has either both old skills or both new ones.
func TestOpen_CompletesADecidedChange(t *testing.T) {
	stop := errors.New("stopped here")
	reached := map[string]bool{}
	for at := 0; ; at++ {
		p := newPlace(t)
		p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "old"), "docx/SKILL.md": skill("docx", "old")})
		s := p.open()
		p.add(s)
		old := tree(t, p.dir)
		p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "new"), "docx/SKILL.md": skill("docx", "new")})
		plan, err := p.prepare(s, p.request())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		undo := atomicfile.SetHook(func(string, string) error {
			if n++; n > at {
				return stop
			}
			return nil
		})
		err = plan.Apply(t.Context())
		undo()
		if err == nil {
			break
		}
		s.Close()
		s = p.open()
		got := tree(t, p.dir)
		decided := s.Recovered
		reached[map[bool]string{true: "new", false: "old"}[decided]] = true
		if same := cmp.Equal(old, got); same == decided {
			t.Errorf("stopped at %d: recovered is %t, and the files are the old ones: %t", at, decided, same)
		}
		if diff := cmp.Diff(map[string]install.State{"docx": install.Intact, "pdf": install.Intact}, p.states(s)); diff != "" {
			t.Errorf("stopped at %d (-want +got):\n%s", at, diff)
		}
	}
	if diff := cmp.Diff(map[string]bool{"new": true, "old": true}, reached); diff != "" {
		t.Errorf("the ends that were reached (-want +got):\n%s", diff)
	}
}

func TestApply_LinksTheFoldersOfAgents(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	r := p.request()
	r.Agents = []string{"one", "two"}
	plan, err := p.prepare(s, r)
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range r.Agents {
		dir, _ := p.agentDir(agent)
		got, err := os.Readlink(filepath.Join(dir, "pdf"))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(filepath.FromSlash("../../skills/pdf"), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", agent, diff)
		}
	}
	if plan, err = s.Remove(t.Context(), []string{"pdf"}, false); err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range r.Agents {
		dir, _ := p.agentDir(agent)
		if diff := cmp.Diff([]string(nil), names(t, dir)); diff != "" {
			t.Errorf("%s still has (-want +got):\n%s", agent, diff)
		}
	}
}

func TestPrepare_KeepsWhatIsInTheFolderOfAnAgent(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string) error{
		"a folder": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "pdf"), 0o755) },
		"another link": func(dir string) error {
			return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("/etc", filepath.Join(dir, "pdf")))
		},
		"the data of git": func(dir string) error {
			git := filepath.Join(filepath.Dir(dir), ".git/hooks")
			return errors.Join(os.MkdirAll(git, 0o755), os.Symlink(".git/hooks", dir))
		},
		"a way out": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.Symlink("/etc", dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
			s := p.open()
			dir, _ := p.agentDir("one")
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			r := p.request()
			r.Agents = []string{"one"}
			_, err := p.prepare(s, r)
			want := map[string]string{"a folder": "skill_exists", "another link": "skill_exists", "a way out": "agent_folder_outside", "the data of git": "agent_folder_outside"}[name]
			if diff := cmp.Diff(want, metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff([]string{".metier"}, names(t, p.dir)); diff != "" {
				t.Errorf("the skill was installed (-want +got):\n%s", diff)
			}
		})
	}
}
