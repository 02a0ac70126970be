package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/internal/atomicfile"
	"metier/internal/testenv"
)

// try opens the store, which may fail.
func (p place) try() (*install.Store, error) {
	s, err := install.Open(p.t.Context(), p.options())
	if err == nil {
		p.t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func (p place) link(to, at string) {
	p.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(to, at)); err != nil {
		testenv.Skip(p.t, "symlinks need a privilege here: "+err.Error())
	}
}

// interrupted adds a skill, and stops after the journal is written.
func (p place) interrupted() {
	p.t.Helper()
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "Read.")})
	s := p.open()
	plan, err := p.prepare(s, p.request())
	if err != nil {
		p.t.Fatal(err)
	}
	stop := errors.New("stopped here")
	defer atomicfile.SetHook(func(stage, path string) error {
		if stage == "install-step" {
			return stop
		}
		return nil
	})()
	if err := plan.Apply(p.t.Context()); !errors.Is(err, stop) {
		p.t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// A journal is completed only with the key of the user who began the change: a repository can contain any
// file.
func TestOpen_CompletesOnlyItsOwnJournal(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(place)
		code  string
	}{
		"own":           {func(place) {}, ""},
		"another key":   {func(p place) { p.put(p.key(), strings.Repeat("k", 32)) }, "install_journal_foreign"},
		"no key":        {func(p place) { os.Remove(p.key()) }, "install_journal_foreign"},
		"not signed":    {func(p place) { p.put(p.journal(), `{"id":"x","gone":["pdf"]}`) }, "install_journal_foreign"},
		"empty":         {func(p place) { p.put(p.journal(), "") }, "install_journal_foreign"},
		"other content": {func(p place) { p.put(p.journal(), p.read(p.journal())+" ") }, "install_journal_foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.interrupted()
			tc.spoil(p)
			_, err := p.try()
			if code := metier.CodeOf(err); err != nil || tc.code != "" {
				if diff := cmp.Diff(tc.code, code); diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
			_, missing := os.Stat(filepath.Join(p.dir, "pdf"))
			if diff := cmp.Diff(tc.code == "", missing == nil); diff != "" {
				t.Errorf("the skill is installed (-want +got):\n%s", diff)
			}
		})
	}
}

func (p place) key() string     { return filepath.Join(filepath.Dir(p.dir), "key") }
func (p place) journal() string { return filepath.Join(p.dir, ".metier/install/journal") }

func (p place) read(file string) string {
	p.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(raw)
}

// A repository can contain links in place of the folders of a store.
func TestOpen_FollowsNoLinkInItsFolders(t *testing.T) {
	t.Parallel()
	for _, at := range []string{".metier", ".metier/install"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.put(filepath.Join(p.dir, "own/SKILL.md"), skill("own", ""))
			elsewhere := t.TempDir()
			p.link(elsewhere, filepath.Join(p.dir, at))
			if at == ".metier/install" {
				os.Remove(filepath.Join(p.dir, at))
				p.link("..", filepath.Join(p.dir, at)) // to .metier/..
			}
			_, err := p.try()
			if diff := cmp.Diff("install_folder_linked", metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff([]string{"SKILL.md"}, names(t, filepath.Join(p.dir, "own"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string(nil), names(t, elsewhere)); diff != "" {
				t.Errorf("created outside (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpen_RefusesTheDataOfGit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	git := filepath.Join(filepath.Dir(p.dir), ".git")
	if err := os.Mkdir(git, 0o755); err != nil {
		t.Fatal(err)
	}
	p.link(".git", p.dir)
	_, err := p.try()
	if diff := cmp.Diff("install_root_outside", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string(nil), names(t, git)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A folder without a SKILL.md, or with a skill.md, is not replaced or removed like a missing one.
func TestPlans_KeepFoldersThatTheyDidNotInstall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file           string
		locked, remove bool
		code           string
	}{
		"add over notes":           {"notes.txt", false, false, "skill_exists"},
		"add over skill.md":        {"skill.md", false, false, "skill_exists"},
		"add over locked notes":    {"notes.txt", true, false, "skill_modified"},
		"remove notes":             {"notes.txt", true, true, "skill_modified"},
		"remove skill.md":          {"skill.md", true, true, "skill_modified"},
		"remove a folder SKILL.md": {"SKILL.md/x", true, true, "skill_modified"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
			s := p.open()
			if tc.locked {
				p.add(s)
			}
			if err := os.RemoveAll(filepath.Join(p.dir, "pdf")); err != nil {
				t.Fatal(err)
			}
			p.put(filepath.Join(p.dir, "pdf", tc.file), skill("pdf", "mine"))
			var err error
			if tc.remove {
				_, err = s.Remove(t.Context(), []string{"pdf"}, false)
			} else {
				_, err = p.prepare(s, p.request())
			}
			if diff := cmp.Diff(tc.code, metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// What verify does not name, a user does not know about.
func TestVerify_NamesEachUnlockedSkill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	p.add(s)
	p.put(filepath.Join(p.dir, "lower/skill.md"), skill("lower", ""))
	p.put(filepath.Join(p.dir, "group/nested/SKILL.md"), skill("nested", ""))
	p.link("../from/pdf", filepath.Join(p.dir, "linked"))
	want := map[string]install.State{"group/nested": install.Unlocked, "linked": install.Unlocked, "lower": install.Unlocked, "pdf": install.Intact}
	if diff := cmp.Diff(want, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err := s.Restore(t.Context(), true, p.settings())
	if diff := cmp.Diff("skill_unlocked", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	plan, err := s.Adopt(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var adopted []string
	for _, c := range plan.Changes {
		adopted = append(adopted, c.Name)
	}
	if diff := cmp.Diff([]string{"lower"}, adopted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(2, len(plan.Notes)); diff != "" {
		t.Errorf("%q (-want +got):\n%s", plan.Notes, diff)
	}
}

func TestVerify_AcceptsALowercaseFileName(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	p.add(s)
	if err := os.Rename(filepath.Join(p.dir, "pdf/SKILL.md"), filepath.Join(p.dir, "pdf/skill.md")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]install.State{"pdf": install.Modified}, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The note that openskills leaves is a file of the skill. Its author can have written it.
func TestAdopt_DoesNotBelieveASkillThatItIsLocal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.put(p.skillsLock(), `{"version":1,"skills":{"noted":{"source":"acme/skills","sourceType":"github"}}}`)
	for _, name := range []string{"noted", "alone"} {
		p.put(filepath.Join(p.dir, name, "SKILL.md"), skill(name, ""))
		p.put(filepath.Join(p.dir, name, ".openskills.json"), `{"sourceType":"local","localPath":"/opt/company/skills"}`)
	}
	s := p.open()
	plan, err := s.Adopt(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]install.Source{}
	for _, c := range plan.Changes {
		got[c.Name] = c.Entry.Source
	}
	want := map[string]install.Source{"alone": {Kind: install.Folder, Location: "./skills/alone"}, "noted": {Kind: install.Git, Location: "https://github.com/acme/skills"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiff_ComparesToolsOfALargeFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	large := strings.Repeat("text\n", 100_000)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", large)})
	s := p.open()
	p.add(s)
	p.write(map[string]string{"pdf/SKILL.md": strings.Replace(skill("pdf", large), "name:", "allowed-tools: Bash\nname:", 1)})
	plan, err := p.prepare(s, p.request())
	if err != nil {
		t.Fatal(err)
	}
	d, err := plan.Diff(plan.Changes[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Bash"}, d.ToolsNow); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A lock that is a link would become a copy of a file of the user.
func TestOpen_RefusesLocksThatAreLinks(t *testing.T) {
	t.Parallel()
	for _, other := range []bool{false, true} {
		p := newPlace(t)
		p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
		at := p.lock
		if other {
			at = p.skillsLock()
		}
		secret := filepath.Join(t.TempDir(), "config.json")
		p.put(secret, `{"version":1,"skills":{},"auths":"secret"}`)
		p.link(secret, at)
		s, err := p.try()
		if err == nil {
			plan, failed := p.prepare(s, p.request())
			if err = failed; err == nil {
				err = plan.Apply(t.Context())
			}
		}
		if diff := cmp.Diff("lock_invalid", metier.CodeOf(err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if info, err := os.Lstat(at); err != nil || info.Mode().IsRegular() {
			t.Errorf("%s was replaced: %v", at, err)
		}
	}
}

// Millions of entries without digests would fill the memory of every command.
func TestReadLock_LimitsEntries(t *testing.T) {
	t.Parallel()
	entries := `"a":{}` + strings.Repeat(`,"a":{}`, 100_000)
	const empty, large = "it has entries without digests", "the lock has more than 32 MiB"
	for text, want := range map[string]string{
		`{"version":1,"skills":{` + entries + `}}`:                                             empty,
		`{"version":1,"skills":{"a":{"files":{` + entries + `}}}}`:                             empty,
		`{"version":1,"skills":{"a":{"agents":["a"` + strings.Repeat(`,"a"`, 100_000) + `]}}}`: empty,
		`{"version":1,"skills":{}}` + strings.Repeat(" ", 32<<20):                              large,
	} {
		p := newPlace(t)
		p.put(p.lock, text)
		_, err := install.ReadLock(p.lock)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// A person who reviews a lock must understand it as metier does.
func TestReadLock_RefusesAmbiguousText(t *testing.T) {
	t.Parallel()
	tree := `"tree":"sha256:` + strings.Repeat("0", 64) + `"`
	entry := `"kind":"folder","source":"/x",` + tree + `,"files":{}`
	for text, want := range map[string]string{
		`{"skills":{"a":{` + entry + `}},"version":1}`:                                       "",
		`{"version":1,"skills":{"Source":{` + entry + `}}}`:                                  "",
		`{"version":1,"skills":{"a":{` + entry + `,"SOURCE":"/y"}}}`:                         `it has the name "SOURCE"; write "source"`,
		`{"version":1,"skills":{"a":{` + entry + `,"ſource":"/y"}}}`:                         `it has the name "ſource"; write "source"`,
		`{"version":1,"skills":{"a":{` + entry + `,"kind":"git"}}}`:                          `it has the name "kind" twice`,
		`{"version":1,"skills":{"a":{` + entry + `},"a":{` + entry + `}}}`:                   `it has the name "a" twice`,
		`{"version":1,"skills":{"a":{` + entry + `}},"skills":{}}`:                           `it has the name "skills" twice`,
		`{"version":1,"skills":{"a":{` + entry + `}}} {"version":1}`:                         "there is text after its end",
		`{"version":1,"skills":{"a":{` + entry + `,"agents":["agents","agents"]}}}`:          "",
		`{"version":1,"skills":{"a":{` + strings.Replace(entry, "{}", `{"x":{}}`, 1) + `}}}`: "has no valid digest",
	} {
		p := newPlace(t)
		p.put(p.lock, text)
		_, err := install.ReadLock(p.lock)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A lock that could not be read again is not written.
func TestApply_WritesNoLockThatIsTooLarge(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	plan, err := p.prepare(s, p.request())
	if err != nil {
		t.Fatal(err)
	}
	plan.Changes[0].Entry.Ref = strings.Repeat("a", 32<<20)
	err = plan.Apply(t.Context())
	if diff := cmp.Diff("lock_too_large", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{".metier"}, names(t, p.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What would fail after a change was decided is found before.
func TestApply_ChecksTheFolderOfNotesFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	p.link(t.TempDir(), filepath.Join(p.dir, ".metier/provenance"))
	plan, err := p.prepare(s, p.request())
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if diff := cmp.Diff("install_folder_linked", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{".metier"}, names(t, p.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A note beside a skill counts only if the lock and the files agree with it.
func TestReadProvenance_ChecksTheLockAndTheFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(place)
		want  bool
	}{
		"installed": {func(place) {}, true},
		"changed":   {func(p place) { p.put(filepath.Join(p.dir, "pdf/SKILL.md"), skill("pdf", "other")) }, false},
		"no lock":   {func(p place) { os.Remove(p.lock) }, false},
		"forged": {func(p place) {
			file := filepath.Join(p.dir, ".metier/provenance/pdf.json")
			p.put(file, strings.Replace(p.read(file), p.in, "https://example.com/x", 1))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.in = t.TempDir()
			p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
			p.add(p.open())
			tc.spoil(p)
			_, ok, err := install.ReadProvenance(t.Context(), filepath.Join(p.dir, "pdf"), p.lock)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, ok); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A link to a kept skill that is a file would be a program in the folder of an agent.
func TestRelink_LinksOnlySkills(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", ""), "docx/SKILL.md": skill("docx", "")})
	s := p.open()
	p.add(s)
	if err := os.RemoveAll(filepath.Join(p.dir, "pdf")); err != nil {
		t.Fatal(err)
	}
	p.put(filepath.Join(p.dir, "pdf"), "#!/bin/sh\n")
	plan, err := s.Relink([]string{"one"})
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := p.agentDir("one")
	if diff := cmp.Diff([]string{"docx"}, names(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(1, len(plan.Notes)); diff != "" {
		t.Errorf("%q (-want +got):\n%s", plan.Notes, diff)
	}
}
