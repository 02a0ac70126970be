package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/internal/testenv"
)

// origin is a repository that a test made.
type origin struct {
	t         *testing.T
	dir, home string
}

func newOrigin(t *testing.T) origin {
	t.Helper()
	testenv.NeedTool(t, "git", "git")
	o := origin{t, filepath.Join(t.TempDir(), "origin"), t.TempDir()}
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o.git("init", "--quiet", "--initial-branch=main")
	return o
}

// env is the environment of git.
func (o origin) env(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.home, "SYSTEMROOT=" + os.Getenv("SYSTEMROOT")}, more...)
}

// git runs git in the repository, and returns what it prints.
func (o origin) git(args ...string) string { return o.gitIn("", args...) }

func (o origin) gitIn(in string, args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = o.dir, o.env("GIT_CONFIG_NOSYSTEM=1"), strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, and commits everything. It returns the commit.
func (o origin) commit(files map[string]string) string {
	o.t.Helper()
	place{t: o.t, in: o.dir}.write(files)
	o.git("add", "--all")
	o.git("commit", "--quiet", "--allow-empty", "-m", "change")
	return o.git("rev-parse", "HEAD")
}

// mktree writes a tree whose entries are lines of git mktree.
func (o origin) mktree(entries ...string) string {
	return o.gitIn(strings.Join(entries, "\n")+"\n", "mktree", "--missing")
}

// commitTree commits a tree to the branch main.
func (o origin) commitTree(tree string) {
	o.git("update-ref", "refs/heads/main", o.git("commit-tree", "-m", "crafted", tree))
}

// blob writes a file to the repository's objects.
func (o origin) blob(text string) string { return o.gitIn(text, "hash-object", "-w", "--stdin") }

func (o origin) source(ref, folder string) install.Source {
	return install.Source{Kind: install.Git, Location: "file://" + filepath.ToSlash(o.dir), Ref: ref, Path: folder}
}

// fetch fetches a source into a new folder.
func (o origin) fetch(s install.Source, more install.FetchOptions) (*install.Fetched, error) {
	more.Dir = o.t.TempDir()
	if more.Env == nil {
		more.Env = o.env()
	}
	return install.Fetch(o.t.Context(), s, more)
}

// texts returns the texts of the files in a folder, with a "*" for those that are executable.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, text := range tree(t, dir) {
		mode, body, _ := strings.Cut(text, " ")
		if strings.HasSuffix(mode, "x") {
			name += "*"
		}
		out[name] = body
	}
	return out
}

func TestFetch_ResolvesReferences(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	first := o.commit(map[string]string{"skills/pdf/SKILL.md": "1"})
	o.git("tag", "light")
	o.git("tag", "-a", "-m", "x", "heavy")
	o.git("branch", "same")
	o.git("tag", "same")
	o.git("branch", "release/1.0")
	second := o.commit(map[string]string{"skills/pdf/SKILL.md": "2"})
	o.git("branch", "both", first)
	o.git("tag", "both")
	third := o.commit(map[string]string{"skills/pdf/SKILL.md": "3", "docx/SKILL.md": "3"})
	for _, tc := range []struct{ ref, folder, commit, code string }{
		{"", "", third, ""}, {"main", "", third, ""}, {"light", "", first, ""}, {"heavy", "", first, ""}, {"release/1.0", "", first, ""}, {"same", "", first, ""},
		{first, "", first, ""}, {second, "skills", second, ""}, {"refs/tags/both", "", second, ""}, {"refs/heads/both", "", first, ""},
		{"both", "", "", "git_ref_ambiguous"}, {"gone", "", "", "git_ref_missing"}, {second[:12], "", "", "git_ref_missing"}, {"main", "docs", "", "source_missing"},
		{"main", "docx/SKILL.md", "", "source_missing"}, {strings.Repeat("1", 40), "", "", "git_commit_missing"},
	} {
		f, err := o.fetch(o.source(tc.ref, tc.folder), install.FetchOptions{})
		if diff := cmp.Diff(tc.code, strings.TrimSuffix(metier.CodeOf(err), "internal")); diff != "" {
			t.Errorf("%s#%s: %v (-want +got):\n%s", tc.ref, tc.folder, err, diff)
			continue
		}
		if err != nil {
			continue
		}
		want := map[string]string{"skills/pdf/SKILL.md": map[string]string{first: "1", second: "2", third: "3"}[tc.commit]}
		if tc.commit == third {
			want["docx/SKILL.md"] = "3"
		}
		if diff := cmp.Diff(want, texts(t, f.Dir)); diff != "" || f.Commit != tc.commit {
			t.Errorf("%s#%s: commit %s, want %s (-want +got):\n%s", tc.ref, tc.folder, f.Commit, tc.commit, diff)
		}
	}
}

func TestFetch_SupportsSHA256(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	if err := os.RemoveAll(filepath.Join(o.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	o.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
	commit := o.commit(map[string]string{"pdf/SKILL.md": "1"})
	for _, ref := range []string{"", "main", commit} {
		f, err := o.fetch(o.source(ref, ""), install.FetchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if f.Commit != commit {
			t.Errorf("%q: commit %s, want %s", ref, f.Commit, commit)
		}
	}
}

func TestFetch_GetsALockedCommit(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	old := o.commit(map[string]string{"pdf/SKILL.md": "1"})
	o.git("tag", "v1")
	o.commit(map[string]string{"pdf/SKILL.md": "2"})
	o.git("tag", "--force", "v1") // moved
	f, err := o.fetch(o.source("v1", ""), install.FetchOptions{Commit: old})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"pdf/SKILL.md": "1"}, texts(t, f.Dir)); diff != "" || f.Commit != old {
		t.Errorf("commit %s, want %s (-want +got):\n%s", f.Commit, old, diff)
	}
	o.git("checkout", "--quiet", "--orphan", "new")
	o.commit(map[string]string{"pdf/SKILL.md": "3"})
	o.git("branch", "-D", "main")
	o.git("tag", "-d", "v1")
	o.git("reflog", "expire", "--expire=now", "--all")
	o.git("gc", "--quiet", "--prune=now")
	if _, err := o.fetch(o.source("v1", ""), install.FetchOptions{Commit: old}); metier.CodeOf(err) != "git_commit_missing" {
		t.Errorf("a commit that is gone: %v", err)
	}
}

func TestFetch_WritesOnlyFilesOfSkills(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"pdf/SKILL.md": "a", "pdf/scripts/run.sh": "b\r\n", "src/main.go": "c", "group/x/SKILL.md": "d", ".gitattributes": "* text eol=crlf export-ignore\n*.sh filter=evil\n"})
	o.git("update-index", "--chmod=+x", "pdf/scripts/run.sh")
	o.git("commit", "--quiet", "-m", "mode")
	f, err := o.fetch(o.source("", ""), install.FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"pdf/SKILL.md": "a", "pdf/scripts/run.sh*": "b\n", "group/x/SKILL.md": "d"}, texts(t, f.Dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f, err = o.fetch(o.source("", ""), install.FetchOptions{Paths: []string{"group/x"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"group/x/SKILL.md": "d"}, texts(t, f.Dir)); diff != "" {
		t.Errorf("one path (-want +got):\n%s", diff)
	}
}

func TestPrepare_InstallsARepositoryThatIsASkill(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"SKILL.md": skill("one", ""), "README.md": "x", ".gitignore": "x", ".github/workflows/ci.yml": "x"})
	p := newPlace(t)
	s := p.openWith(install.Options{Env: o.env()})
	plan, err := p.prepare(s, install.Request{Source: o.source("", "")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`".github/workflows/ci.yml" belongs to the repository, not to the skill`}, plan.Notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"SKILL.md": skill("one", ""), "README.md": "x", ".gitignore": "x"}, texts(t, filepath.Join(p.dir, "one"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPrepare_RefusesEntriesThatAreNotFiles installs from a repository in which one skill is in order, and
// the other one has an entry that cannot be installed.
func TestPrepare_RefusesEntriesThatAreNotFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		entry func(o origin) string // of the folder of the skill, as git mktree reads it
		code  string
	}{
		"link":      {func(o origin) string { return "120000 blob " + o.blob("../../../etc/passwd") + "\tnotes.md" }, "skill_file_refused"},
		"submodule": {func(o origin) string { return "160000 commit " + strings.Repeat("1", 40) + "\tvendor" }, "skill_submodule"},
		"LFS": {func(o origin) string {
			return "100644 blob " + o.blob("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n") + "\ta.bin"
		}, "skill_lfs_file"},
		"newline":    {func(o origin) string { return "100644 blob " + o.blob("x") + "\t\"a\\nb\"" }, "skill_file_refused"},
		"back-slash": {func(o origin) string { return "100644 blob " + o.blob("x") + "\t\"a\\\\b\"" }, "skill_file_refused"},
		"drive":      {func(o origin) string { return "100644 blob " + o.blob("x") + "\tC:x" }, "skill_file_refused"},
		"case": {func(o origin) string {
			return "100644 blob " + o.blob("x") + "\tA.md\n100644 blob " + o.blob("x") + "\ta.md"
		}, "skill_file_refused"},
		"not UTF-8": {func(o origin) string { return "100644 blob " + o.blob("x") + "\t\"a\\377\"" }, "skill_file_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			bad := o.mktree("100644 blob "+o.blob(skill("bad", ""))+"\tSKILL.md", tc.entry(o))
			good := o.mktree("100644 blob " + o.blob(skill("good", "")) + "\tSKILL.md")
			o.commitTree(o.mktree("040000 tree "+bad+"\tbad", "040000 tree "+good+"\tgood", "120000 blob "+o.blob("bad")+"\tlink"))
			p := newPlace(t)
			s := p.openWith(install.Options{Env: o.env()})
			_, err := p.prepare(s, install.Request{Source: o.source("", ""), Skills: []string{"bad"}})
			if diff := cmp.Diff(tc.code, metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			plan, err := p.prepare(s, install.Request{Source: o.source("", ""), Skills: []string{"good"}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{`"link" is a link and was not followed`}, plan.Notes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := plan.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]install.State{"good": install.Intact}, p.states(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"lock"}, names(t, filepath.Join(p.dir, ".metier/install"))); diff != "" {
				t.Errorf("what was fetched is left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFetch_RefusesTreesThatLeadOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"..", ".", ".git", ".GIT"} {
		o := newOrigin(t)
		inner := o.mktree("100644 blob " + o.blob("x") + "\tSKILL.md")
		// git mktree refuses some of these names, and so the tree is written as it is stored.
		raw := "40000 " + name + "\x00" + string(bytesOf(t, inner))
		o.commitTree(o.gitIn(raw, "hash-object", "-t", "tree", "-w", "--stdin", "--literally"))
		if _, err := o.fetch(o.source("", ""), install.FetchOptions{}); metier.CodeOf(err) != "git_objects_invalid" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func bytesOf(t *testing.T, id string) []byte {
	var b []byte
	if _, err := fmt.Sscanf(id, "%x", &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFetch_ChecksTheSourceOfALock(t *testing.T) {
	t.Parallel()
	canary := filepath.Join(t.TempDir(), "canary")
	o := newOrigin(t)
	o.commit(map[string]string{"pdf/SKILL.md": "1"})
	good := o.source("", "")
	for name, s := range map[string]install.Source{
		"option":    {Kind: install.Git, Location: "--upload-pack=touch " + canary},
		"ext":       {Kind: install.Git, Location: "ext::sh -c touch% " + canary},
		"path":      {Kind: install.Git, Location: o.dir},
		"ssh host":  {Kind: install.Git, Location: "ssh://-oProxyCommand=touch%20" + canary + "/x"},
		"scp host":  {Kind: install.Git, Location: "-oProxyCommand=touch@host:x"},
		"ref":       {Kind: install.Git, Location: good.Location, Ref: "--upload-pack=touch " + canary},
		"refspec":   {Kind: install.Git, Location: good.Location, Ref: "main:refs/heads/x"},
		"folder":    {Kind: install.Git, Location: good.Location, Path: "../../x"},
		"plain":     {Kind: install.Git, Location: "http://git.example.com/x.git"},
		"token":     {Kind: install.Git, Location: "https://ghp_0123456789@github.com/a/b.git"},
		"git":       {Kind: install.Git, Location: "git://git.example.com/x.git"},
		"new lines": {Kind: install.Git, Location: "https://git.example.com/x.git\nhost=evil"},
	} {
		_, err := o.fetch(s, install.FetchOptions{})
		if code := metier.CodeOf(err); !slices.Contains([]string{"source_invalid", "source_password", "source_insecure", "git_ref_missing", "git_failed"}, code) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(canary); err == nil {
			t.Fatalf("%s ran a program", name)
		}
	}
}

// TestFetch_IgnoresOthersConfiguration fetches in the presence of configuration that would run a program.
func TestFetch_IgnoresOthersConfiguration(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"pdf/SKILL.md": "1", ".gitattributes": "* filter=evil diff=evil\n"})
	canary := filepath.Join(t.TempDir(), "canary")
	run := "touch " + canary + "; "
	for _, hook := range []string{"post-checkout", "post-merge", "reference-transaction", "pre-auto-gc", "post-index-change"} {
		testenv.WriteProgram(t, filepath.Join(o.dir, ".git/hooks", hook), []byte("#!/bin/sh\n"+run+"\n"))
	}
	// A project whose configuration is hostile, and contains the staging folder.
	project := newPlace(t)
	project.dir = filepath.Join(o.t.TempDir(), "project/.agents/skills")
	if err := os.MkdirAll(project.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = " + run + "\n\tsshCommand = " + run + "\n\tgitProxy = " + run + "\n[filter \"evil\"]\n\tsmudge = " + run + "\n[url \"ext::sh -c touch% " + canary + " \"]\n\tinsteadOf = file://\n"
	gitDir := filepath.Join(filepath.Dir(filepath.Dir(project.dir)), ".git")
	for name, text := range map[string]string{"config": config, "HEAD": "ref: refs/heads/main\n", "objects/x": "", "refs/x": ""} {
		file := filepath.Join(gitDir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s := project.openWith(install.Options{Env: o.env("GIT_DIR="+gitDir, "GIT_WORK_TREE=/", "GIT_SSH_COMMAND="+run, "GIT_PROXY_COMMAND="+run, "GIT_EXEC_PATH=/nonexistent",
		"GIT_TEMPLATE_DIR="+gitDir, "GIT_ASKPASS="+run, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.sshCommand", "GIT_CONFIG_VALUE_0="+run, "GIT_OBJECT_DIRECTORY=/nonexistent", "GIT_TRACE="+canary)})
	if _, err := project.prepare(s, install.Request{Source: o.source("", "pdf"), All: true}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("a program ran")
	}
}

// gitServer serves the repository as git's own program does, or as plain files.
func gitServer(o origin, dumb bool, wrap func(http.Handler) http.Handler) string {
	o.t.Helper()
	var h http.Handler = http.StripPrefix("/x.git", http.FileServer(http.Dir(filepath.Join(o.dir, ".git"))))
	if !dumb {
		h = &cgi.Handler{Path: filepath.Join(strings.TrimSpace(o.git("--exec-path")), "git-http-backend"), Root: "/x.git", Stderr: io.Discard,
			Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(o.dir, ".git"), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + o.home}}
	}
	o.git("update-server-info")
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	o.t.Cleanup(s.Close)
	return s.URL + "/x.git"
}

func TestFetch_OverHTTP(t *testing.T) {
	t.Parallel()
	for _, dumb := range []bool{false, true} {
		o := newOrigin(t)
		old := o.commit(map[string]string{"pdf/SKILL.md": "1"})
		now := o.commit(map[string]string{"pdf/SKILL.md": "2"})
		url := gitServer(o, dumb, nil)
		var progress []string
		for ref, want := range map[string]string{"": now, "main": now, old: old} {
			f, err := o.fetch(install.Source{Kind: install.Git, Location: url, Ref: ref}, install.FetchOptions{Progress: func(l string) { progress = append(progress, l) }})
			if err != nil {
				t.Fatalf("dumb %t, %q: %v", dumb, ref, err)
			}
			if f.Commit != want {
				t.Errorf("dumb %t, %q: commit %s, want %s", dumb, ref, f.Commit, want)
			}
		}
		if !dumb && !slices.ContainsFunc(progress, func(l string) bool { return strings.Contains(l, "objects: 100%") }) {
			t.Errorf("the progress is %q", progress)
		}
	}
}

// TestFetch_UsesTheUsersCredentials fetches from a server that asks for a password, which a helper in the
// user's configuration knows.
func TestFetch_UsesTheUsersCredentials(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"pdf/SKILL.md": "1"})
	url := gitServer(o, false, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, password, _ := r.BasicAuth(); password != "sesame" {
				w.Header().Set("WWW-Authenticate", "Basic realm=x")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	source := install.Source{Kind: install.Git, Location: url}
	if _, err := o.fetch(source, install.FetchOptions{}); metier.CodeOf(err) != "git_access_denied" {
		t.Errorf("without credentials: %v", err)
	}
	config := "[credential]\n\thelper = \"!f() { echo username=a; echo password=sesame; }; f\"\n"
	if err := os.WriteFile(filepath.Join(o.home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.fetch(source, install.FetchOptions{}); err != nil {
		t.Errorf("with credentials: %v", err)
	}
}

func TestFetch_ErrorsNameTheCause(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"pdf/SKILL.md": "1"})
	closed := httptest.NewServer(http.NotFoundHandler())
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	closed.Close()
	away := httptest.NewServer(http.RedirectHandler("https://127.0.0.1:1/x.git/info/refs?service=git-upload-pack", http.StatusFound))
	t.Cleanup(away.Close)
	for name, tc := range map[string]struct {
		location string
		env      []string
		code     string
	}{
		"no git":         {o.source("", "").Location, []string{"PATH=" + t.TempDir()}, "git_missing"},
		"relative PATH":  {o.source("", "").Location, []string{"PATH=.:bin"}, "git_missing"},
		"no repository":  {"file:///nonexistent/x.git", nil, "git_repository_missing"},
		"no page":        {missing.URL + "/x.git", nil, "git_repository_missing"},
		"closed":         {closed.URL + "/x.git", nil, "git_unreachable"},
		"other protocol": {away.URL + "/x.git", nil, "git_protocol_refused"},
	} {
		_, err := o.fetch(install.Source{Kind: install.Git, Location: tc.location}, install.FetchOptions{Env: tc.env})
		if diff := cmp.Diff(tc.code, metier.CodeOf(err)); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	empty := newOrigin(t)
	if _, err := empty.fetch(empty.source("", ""), install.FetchOptions{}); metier.CodeOf(err) != "git_ref_missing" {
		t.Errorf("an empty repository: %v", err)
	}
}

func TestFetch_LimitsTheFilesOfSkills(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	text := o.blob("x")
	var entries []string
	for i := range 1000 {
		entries = append(entries, fmt.Sprintf("100644 blob %s\t%04d", text, i))
	}
	part := o.mktree(entries...)
	folders := []string{"100644 blob " + o.blob(skill("big", "")) + "\tSKILL.md"}
	for i := range 100 {
		folders = append(folders, fmt.Sprintf("040000 tree %s\tp%02d", part, i))
	}
	o.commitTree(o.mktree("040000 tree " + o.mktree(folders...) + "\tbig"))
	if _, err := o.fetch(o.source("", ""), install.FetchOptions{}); metier.CodeOf(err) != "git_repository_large" {
		t.Errorf("100,001 files: %v", err)
	}
	if f, err := o.fetch(o.source("", ""), install.FetchOptions{Paths: []string{"big/SKILL.md"}}); err != nil || len(texts(t, f.Dir)) != 1 {
		t.Errorf("one of them: %v", err)
	}
}

func TestFetch_LimitsSkills(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	one := o.mktree("100644 blob " + o.blob(skill("pdf", "")) + "\tSKILL.md")
	var entries []string
	for i := range 101 {
		entries = append(entries, fmt.Sprintf("040000 tree %s\t%03d", one, i))
	}
	part := o.mktree(entries...)
	entries = entries[:0]
	for i := range 100 {
		entries = append(entries, fmt.Sprintf("040000 tree %s\t%03d", part, i))
	}
	o.commitTree(o.mktree(entries...))
	_, err := o.fetch(o.source("", ""), install.FetchOptions{})
	if diff := cmp.Diff("git_repository_large", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A repository of a few kilobytes can have paths of gigabytes.
func TestFetch_LimitsPaths(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ folder, files int }{"one": {10_000, 1}, "all": {4000, 20_000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			text := o.blob(skill("pdf", ""))
			var entries []string
			for i := range tc.files {
				entries = append(entries, fmt.Sprintf("100644 blob %s\t%05d", text, i))
			}
			o.commitTree(o.mktree("100644 blob "+text+"\tSKILL.md", "040000 tree "+o.mktree(entries...)+"\t"+strings.Repeat("a", tc.folder)))
			_, err := o.fetch(o.source("", ""), install.FetchOptions{})
			if diff := cmp.Diff("git_repository_large", metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestFetch_CancelKillsGit cancels a fetch while a server holds it up.
func TestFetch_CancelKillsGit(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"pdf/SKILL.md": "1"})
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	hold := make(chan struct{})
	gone := make(chan struct{})
	url := gitServer(o, false, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel(stop)
			select {
			case <-r.Context().Done(): // git closed the connection
				close(gone)
			case <-hold:
			}
		})
	})
	t.Cleanup(func() { close(hold) })
	_, err := install.Fetch(ctx, install.Source{Kind: install.Git, Location: url}, install.FetchOptions{Dir: t.TempDir(), Env: o.env()})
	if !errors.Is(err, stop) {
		t.Errorf("the error is %v", err)
	}
	<-gone
}

func (p place) openWith(o install.Options) *install.Store {
	p.t.Helper()
	o.Dir, o.Lock = p.dir, p.lock
	s, err := install.Open(p.t.Context(), o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { s.Close() })
	return s
}
