package filetool

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/settings"
)

// req: B-047, B-048, B-050
func TestReadRootIsGrantedAtRunTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "keen"}, map[string]string{"OUT/skills/a/references/deep/x.md": "deep\n"})
	p := e.path("OUT/skills/a/references/deep/x.md")
	_, err := e.try("read_file", args{"path": p})
	if q, ok := errors.AsType[*metier.NeedsApproval](err); !ok || !strings.Contains(q.Question.Text, p) {
		t.Fatalf("before the grant: %v, want a question that names the path", err)
	}
	for range 3 {
		if err := e.ws.AddReadRoot(e.at("OUT/skills")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(e.ws.grants); n != 1 {
		t.Errorf("granted three times: %d grants", n)
	}
	if got := e.read(p); got != "deep\n" {
		t.Errorf("after the grant: %q", got)
	}
	if o := e.call("list_files", args{"path": e.path("OUT/skills/a/references/deep")}); o.Code() != "" || !strings.Contains(o.Text(), "x.md") {
		t.Errorf("a folder after the grant: %s", o.Text())
	}
	if o, err := e.try("write_file", args{"path": p, "content": "written\n"}); err == nil && o.Code() == "" || e.content("OUT/skills/a/references/deep/x.md") != "deep\n" {
		t.Errorf("a root for reading is written to: %v %v", o, err)
	}
	e.refuse("ask", "read_file", args{"path": e.path("OUT/skillset/x.md")}) // a sibling whose name has the same prefix
	if err := e.ws.AddReadRoot(e.at("OUT/nowhere")); metier.KindOf(err) != metier.NotFound {
		t.Errorf("a root that is not there: %v", err)
	}
}

// req: B-049, B-053
func TestGrantOpensItsDotFolderAndNoOther(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "keen"}, map[string]string{
		"HOME/.agents/skills/x/notes.md": "granted\n", "HOME/.agents/other/y": "secret", "HOME/.agents/skills-2/y": "secret",
		"HOME/.ssh/id": "secret", "HOME/.netrc": "secret", "HOME/plain": "p",
	})
	x := e.path("HOME/.agents/skills/x/notes.md")
	e.refuse(policy.CodePathDenied, "read_file", args{"path": x})
	if err := e.ws.AddReadRoot(e.at("HOME/.agents/skills")); err != nil {
		t.Fatal(err)
	}
	if got := e.read(x); got != "granted\n" {
		t.Errorf("%q", got)
	}
	if got := e.read("~/.agents/skills/x/notes.md"); got != "granted\n" {
		t.Errorf("by ~: %q", got)
	}
	e.link(e.at("HOME/.ssh/id"), "key")
	e.link(e.at("HOME/.ssh"), "HOME/.agents/skills/x/keys")
	closed := []string{"~/.ssh/id", e.path("HOME/.ssh/id"), e.path("HOME/.netrc"), e.path("HOME/.agents/other/y"), e.path("HOME/.ssh/none"),
		e.path("HOME/.agents/skills-2/y"), "key", e.path("HOME/.agents/skills/x/keys/id")}
	if runtime.GOOS == "linux" { // elsewhere this can be the same folder
		e.put("HOME/.agents/Skills/x/y", "secret")
		e.put("HOME/.Agents/skills/x/y", "secret")
		closed = append(closed, e.path("HOME/.agents/Skills/x/y"), e.path("HOME/.Agents/skills/x/y"))
	}
	for _, p := range closed {
		for _, tool := range []string{"read_file", "search_files", "list_files", "write_file"} {
			a := args{"path": p}
			switch tool {
			case "search_files":
				a["pattern"] = "secret"
			case "write_file":
				a["content"] = "changed"
			}
			if o := e.refuse(policy.CodePathDenied, tool, a); strings.Contains(o.Text(), "secret") {
				t.Errorf("%s %s leaks: %s", tool, p, o.Text())
			}
		}
	}
	e.refuse("ask", "read_file", args{"path": e.path("HOME/plain")})
}

// A skill in the home opens its own folder, and no other dot path there.
//
// req: B-048, B-049, B-053
func TestReadFile_SkillInHomeOpensItsFolderOnly(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"keen", settings.DefaultProfile} { // all of the root is granted, and each skill's folder
		e := newEnv(t, setup{profile: profile, roots: []string{"HOME/.agents/skills"}}, map[string]string{"HOME/.agents/skills/x/SKILL.md": skillText("x"),
			"HOME/.agents/skills/x/notes.md": "granted\n", "HOME/.agents/skills/x/.hidden": "granted too\n", "HOME/.agents/other/y": "secret", "HOME/.ssh/id": "secret", "HOME/.netrc": "secret"})
		for path, want := range map[string]string{"~/.agents/skills/x/notes.md": "granted\n", "~/.agents/skills/x/.hidden": "granted too\n"} {
			if diff := cmp.Diff(want, e.read(path)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", profile, path, diff)
			}
		}
		for _, p := range []string{"~/.ssh/id", "~/.netrc", "~/.agents/other/y", "~/.agents", "~/.ssh", e.path("HOME/.ssh/id")} {
			if o := e.refuse(policy.CodePathDenied, "read_file", args{"path": p}); strings.Contains(o.Text(), "secret") {
				t.Errorf("%s: %s is shown: %s", profile, p, o.Text())
			}
		}
	}
}

// A root can contain the workspace. Its files are readable like those of any other root.
//
// req: B-048
func TestReadFile_RootAboveTheWorkspaceIsGranted(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "keen", roots: []string{".."}}, map[string]string{"../x/SKILL.md": skillText("x"), "../shared/deep/notes.md": "of no skill\n"})
	if diff := cmp.Diff("of no skill\n", e.read(e.path("../shared/deep/notes.md"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// req: B-051, B-052
func TestRootsOfEveryScanAreReadable(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "keen", roots: []string{"skills", "HOME/.agents/skills"}}, map[string]string{"HOME/x": "", "skills/near/SKILL.md": skillText("near")})
	p := e.path("HOME/.agents/skills/new/references/a.md")
	e.refuse(policy.CodePathDenied, "read_file", args{"path": p})
	e.put("HOME/.agents/skills/new/SKILL.md", skillText("new"))
	e.put("HOME/.agents/skills/new/references/a.md", "reference\n")
	e.put("HOME/.agents/skills/README.md", "of no skill\n")
	e.refuse(policy.CodePathDenied, "read_file", args{"path": p}) // no scan yet
	if err := e.s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := e.read(e.path("HOME/.agents/skills/new/SKILL.md")); !strings.Contains(got, "Body of new.") {
		t.Errorf("SKILL.md on the next turn: %q", got)
	}
	if got := e.read(p); got != "reference\n" {
		t.Errorf("bundled file: %q", got)
	}
	if got := e.read(e.path("HOME/.agents/skills/README.md")); got != "of no skill\n" {
		t.Errorf("file of the new root: %q", got)
	}
	reads := events[event.ResourceRead](e)
	if len(reads) != 1 || reads[0].Status != "read" || reads[0].Path != "references/a.md" {
		t.Errorf("recorded reads: %+v", reads)
	}
}

// req: B-054, C-033
func TestGrantIsForReadsOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "keen", roots: []string{"HOME/.agents/skills", "skills"}}, map[string]string{
		"HOME/.agents/skills/a/SKILL.md": skillText("a"), "skills/b/SKILL.md": skillText("b"), "OUT/granted/f": "f",
	})
	if err := e.ws.AddReadRoot(e.at("OUT/granted")); err != nil {
		t.Fatal(err)
	}
	e.link(e.at("skills/b"), "alias")
	for _, p := range []string{
		e.path("HOME/.agents/skills/a/SKILL.md"), e.path("HOME/.agents/skills/evil/SKILL.md"), e.path("OUT/granted/f"), e.path("OUT/granted/new"),
		"skills/b/SKILL.md", "skills/b/new.md", "skills/evil/SKILL.md", "/workspace/skills/evil/SKILL.md", "alias/SKILL.md", "/skills/a/SKILL.md",
	} {
		e.refuse(policy.CodePathReadOnly, "write_file", args{"path": p, "content": "mine"})
		e.refuse(policy.CodePathReadOnly, "edit_file", args{"path": p, "old": "a", "new": "mine"})
	}
	for name, want := range map[string]string{"HOME/.agents/skills/a/SKILL.md": skillText("a"), "skills/b/SKILL.md": skillText("b"), "OUT/granted/f": "f",
		"skills/evil/SKILL.md": "absent", "OUT/granted/new": "absent", "HOME/.agents/skills/evil/SKILL.md": "absent"} {
		if got := e.content(name); got != want {
			t.Errorf("%s = %q", name, got)
		}
	}
}

func TestGrantThatIsALinkIsResolved(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "keen"}, map[string]string{"OUT/real/f": "f\n", "OUT/other/f": "o\n"})
	e.link(e.at("OUT/real"), "OUT/link")
	if err := e.ws.AddReadRoot(e.at("OUT/link")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"OUT/real/f", "OUT/link/f"} {
		if got := e.read(e.path(p)); got != "f\n" {
			t.Errorf("%s: %q", p, got)
		}
	}
	// The link is moved: its granted target stays granted, the new target is
	// not.
	if err := os.Remove(e.at("OUT/link")); err != nil {
		t.Fatal(err)
	}
	e.link(e.at("OUT/other"), "OUT/link")
	e.refuse("ask", "read_file", args{"path": e.path("OUT/link/f")})
	// A link inside a granted root opens nothing outside it.
	e.link(e.at("OUT/other/f"), "OUT/real/out")
	e.refuse("ask", "read_file", args{"path": e.path("OUT/real/out")})
}

// req: B-050
func TestGuardAllowsWhatTheSettingSays(t *testing.T) {
	t.Parallel()
	for guard, want := range map[settings.GuardAllow][2]string{
		settings.GuardAllowNone: {"ask", "ask"}, settings.GuardAllowSkillDirs: {"", "ask"}, settings.GuardAllowRoots: {"", ""},
	} {
		t.Run(string(guard), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, setup{profile: "keen", roots: []string{"OUT/skills"}, files: func(o *Options) { o.Guard = guard }},
				map[string]string{"OUT/skills/a/SKILL.md": skillText("a"), "OUT/skills/README": "r\n"})
			for i, p := range []string{"OUT/skills/a", "OUT/skills"} {
				tg, err := e.ws.resolve(e.path(p), false, e.ws.rules(e.s.Snapshot(), guard))
				if err != nil {
					t.Fatal(err)
				}
				if got := map[policy.Zone]string{policy.ZoneSkill: "", policy.ZoneOutside: "ask"}[tg.Zone]; got != want[i] {
					t.Errorf("%s is in zone %s, want %q", p, tg.Zone, want[i])
				}
			}
		})
	}
}

// req: C-033
func TestWorkspaceInARootOfSkillsIsReadOnly(t *testing.T) {
	t.Parallel()
	for _, root := range []string{".", "..", "../.."} {
		for _, guard := range []settings.GuardAllow{settings.GuardAllowNone, settings.GuardAllowSkillDirs, settings.GuardAllowRoots} {
			e := newEnv(t, setup{profile: "keen", roots: []string{root}, files: func(o *Options) { o.Guard = guard }},
				map[string]string{"a/SKILL.md": skillText("a"), "notes.md": "needle\n"})
			for _, p := range []string{"a/SKILL.md", "a/new.md", "b/SKILL.md", "b/skill.MD", "SKILL.md", "new.md", "notes.md", e.path("b/SKILL.md")} {
				o := e.refuse(policy.CodePathReadOnly, "write_file", args{"path": p, "content": "n"})
				if !strings.HasPrefix(p, "a/") && !strings.Contains(o.Text(), "the workspace or mount is in a skills folder") {
					t.Errorf("%s: %s", p, o.Text())
				}
			}
			e.refuse(policy.CodePathReadOnly, "edit_file", args{"path": "notes.md", "old": "needle", "new": "n"})
			if o := e.call("search_files", args{"pattern": "needle"}); !strings.Contains(o.Text(), "notes.md:1: needle") {
				t.Errorf("search: %s", o.Text())
			}
			if got := e.content("b"); got != "absent" {
				t.Errorf("b was made: %q", got)
			}
		}
	}
}

func TestMountInARootOfSkillsIsReadOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "keen", roots: []string{"OUT/skills"}, options: func(e *env, o *WorkspaceOptions) {
		o.Mounts = []Mount{{Name: "group", Source: e.at("OUT/skills/group"), Target: "/group", Mode: "rw"}, {Name: "rest", Source: e.at("OUT/rest"), Target: "/rest", Mode: "rw"}}
	}}, map[string]string{"OUT/skills/group/a": "a", "OUT/rest/a": "a"})
	e.refuse(policy.CodePathReadOnly, "write_file", args{"path": "/group/b/SKILL.md", "content": "n"})
	for _, p := range []string{"/rest/b/SKILL.md", "new.md"} {
		if o := e.call("write_file", args{"path": p, "content": "n"}); o.Code() != "" {
			t.Errorf("%s: %s", p, o.Text())
		}
	}
}

func TestMoreHomes_HaveClosedDotPaths(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) { o.Homes = []string{e.dir} }}, map[string]string{".ssh/id": "secret", "HOME/f": "x"})
	e.refuse(policy.CodePathDenied, "read_file", args{"path": ".ssh/id"})
	got, err := e.ws.Resolve("~/f", false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.at("HOME/f"), got.Host); diff != "" {
		t.Errorf("~ is not the first home (-want +got):\n%s", diff)
	}
}

func TestMount_KeepsWhatProtectsItsPath(t *testing.T) {
	t.Parallel()
	sources := map[string]string{"git": "OUT/.git/hooks", "agent": "OUT/.claude/skills", "below": "OUT/.claude/skills/a", "own": "kept/sub", "records": "OUT/.metier/runs"}
	files := map[string]string{}
	for _, source := range sources {
		files[source+"/f"] = "x"
	}
	e := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) {
		o.Protected = []string{e.at("kept")}
		for name, source := range sources {
			o.Mounts = append(o.Mounts, Mount{Name: name, Source: e.at(source), Target: "/" + name, Mode: "rw"})
		}
	}}, files)
	for _, name := range []string{"git", "agent", "below", "own"} {
		e.refuse(policy.CodePathReadOnly, "edit_file", args{"path": "/" + name + "/f", "old": "x", "new": "y"})
		if got := e.read("/" + name + "/f"); got != "x" {
			t.Errorf("%s: read %q", name, got)
		}
	}
	e.refuse(policy.CodePathDenied, "read_file", args{"path": "/records/f"})
}

func TestOpenWorkspace_FollowsNoLinkToAMount(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"OUT/real/f": "x"})
	if err := os.Symlink(e.at("OUT/real"), e.at("OUT/link")); err != nil {
		t.Fatal(err)
	}
	_, err := OpenWorkspace(e.dir, &WorkspaceOptions{Mounts: []Mount{{Source: e.at("OUT/link"), Target: "/m", Mode: "rw"}}})
	if got := metier.CodeOf(err); got != "workspace_unreadable" {
		t.Errorf("the error is %v (%v)", got, err)
	}
}

func TestProtectedAndDeniedPaths(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) {
		o.Protected = []string{e.at("policy.yaml"), e.at(".agents/skills"), e.at("later/skills")}
		o.Denied = []string{e.at("secret"), e.at("OUT/secret")}
	}}, map[string]string{"policy.yaml": "allow: []\n", "secret/key": "k", "OUT/secret/key": "k", ".git/config": "[core]\n", ".metier/runs/r/events.jsonl": "{}",
		"metier.yaml": "profile: keen\n", "sub/metier.yaml": "x: y\n"})
	if got := e.read("policy.yaml"); got != "allow: []\n" {
		t.Errorf("protected is readable: %q", got)
	}
	if got := e.read(".git/config"); got != "[core]\n" {
		t.Errorf(".git is readable: %q", got)
	}
	for _, p := range []string{"policy.yaml", "POLICY.yaml", ".agents/skills/evil/SKILL.md", "later/skills/evil/SKILL.md", "metier.yaml", "Metier.YAML", "sub/metier.yaml",
		".claude/skills/x/SKILL.md", ".CLAUDE/Skills/x", "sub/.codex/skills/x", ".github/skills", ".tabnine/agent/skills/x", "sub/.TABNINE/Agent/skills",
		"HEAD", "sub/HEAD", ".git/config", ".git/hooks/pre-commit", ".GIT/hooks/pre-commit", ".git/info/attributes", "sub/.git", "sub/.git/config", ".git./config", ".git /config",
		"GIT~1/config", "git~2/config", ".g\u200cit/config", ".git::$INDEX_ALLOCATION/config"} {
		e.refuse(policy.CodePathReadOnly, "write_file", args{"path": p, "content": "mine"})
	}
	for _, p := range []string{"secret/key", "Secret/key", "secret", e.path("OUT/secret/key"), ".metier/runs/r/events.jsonl", ".Metier/x", ".METIER/runs/r/events.jsonl",
		".metier./x", "METIER~1/x", "sub/.metier/x"} {
		e.refuse(policy.CodePathDenied, "read_file", args{"path": p})
		e.refuse(policy.CodePathDenied, "write_file", args{"path": p, "content": "mine"})
	}
	for _, p := range []string{".github/x.yml", "agent/skills/x.go", "src/agent/skills/x.go", "skills/x.go", ".tabnine/skills/x", "sub/head/x"} { // of no agent, and not HEAD
		if o := e.call("write_file", args{"path": p, "content": "x"}); o.Code() != "" {
			t.Errorf("%s: %s", p, o.Text())
		}
	}
	for _, name := range []string{"later", ".agents", ".GIT", "GIT~1", ".Metier"} {
		if _, err := os.Lstat(e.at(name)); err == nil && name != ".agents" {
			t.Errorf("%s was made", name)
		}
	}
}

// What a protected link will lead to is protected, too, and so are the files of bare repositories,
// which a program may have created.
func TestWhatGitAndLinksLeadToIsProtected(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) {
		for link, to := range map[string]string{"mcp.json": "cfg/mcp.json", "chain": "mcp2", "mcp2": "cfg/second"} {
			if err := os.Symlink(to, e.at(link)); err != nil {
				t.Fatal(err)
			}
		}
		o.Protected = []string{e.at("mcp.json"), e.at("chain")}
	}}, map[string]string{"bare/HEAD": "", "bare/objects/x": "", "bare/config": "", "other/objects/x": "", "half/HEAD": ""})
	for _, p := range []string{"cfg/mcp.json", "cfg/second", "bare/config", "bare/hooks/update", "half/objects/x", "half/commondir"} {
		e.refuse(policy.CodePathReadOnly, "write_file", args{"path": p, "content": "mine"})
	}
	if o := e.call("write_file", args{"path": "other/config", "content": "x"}); o.Code() != "" {
		t.Error(o.Text())
	}
}

// req: B-053
func TestHomeAsWorkspaceKeepsItsDotFoldersClosed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) { o.Home = e.dir }}, map[string]string{".ssh/id": "secret", "a": "secret too\n"})
	for _, p := range []string{".ssh/id", "~/.ssh/id", e.path(".ssh/id")} {
		e.refuse(policy.CodePathDenied, "read_file", args{"path": p})
	}
	e.refuse(policy.CodePathDenied, "write_file", args{"path": ".bashrc", "content": "x"})
	if o := e.call("search_files", args{"pattern": "secret"}); strings.Contains(o.Text(), ".ssh/id") || !strings.Contains(o.Text(), "a:1:") {
		t.Error(o.Text())
	}
	if o := e.call("list_files", args{"depth": 5}); strings.Contains(o.Text(), "id\n") {
		t.Error(o.Text())
	}
	inside := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) { o.Home = filepath.Dir(e.dir) }}, map[string]string{"a": "x\n"})
	if got := inside.read("a"); got != "x\n" {
		t.Error(got)
	}
}

// req: C-033
func TestSkillPathsAreMediatedByTheLoader(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "agent-runtime", roots: []string{"skills"}}, map[string]string{
		"skills/a/SKILL.md": skillText("a"), "skills/a/references/one.md": "needle one\n", "skills/a/references/deep/two.md": "needle two\n", "doc.md": "needle doc\n",
	})
	e.link(e.at("skills/a"), "alias")
	e.link(e.at("skills/a/references/deep/two.md"), "two.md")
	if got := e.read("skills/a/references/one.md"); !strings.Contains(got, "needle one") {
		t.Errorf("%q", got)
	}
	for _, p := range []string{"skills/a/references/deep/two.md", "/workspace/skills/a/references/deep/two.md", e.path("skills/a/references/deep/two.md"),
		"alias/references/deep/two.md", "two.md", "./skills//a/references/deep/two.md"} {
		e.refuse("resource_too_deep", "read_file", args{"path": p})
	}
	o := e.call("search_files", args{"pattern": "needle"})
	if strings.Contains(o.Text(), "needle one") || strings.Contains(o.Text(), "needle two") || !strings.Contains(o.Text(), "needle doc") ||
		!strings.Contains(o.Text(), "of skills left out") {
		t.Errorf("search past the loader: %s", o.Text())
	}
	for _, p := range []string{"skills/a", "alias"} {
		o = e.call("search_files", args{"pattern": "needle", "path": p})
		if !strings.Contains(o.Text(), "needle one") || strings.Contains(o.Text(), "needle two") {
			t.Errorf("search of %s: %s", p, o.Text())
		}
	}
	e.refuse("skill_root", "search_files", args{"pattern": "needle", "path": "skills"})
	for _, p := range []string{"skills/a/SKILL.md", "skills/a/references/one.md", "skills/a/new.md", "skills/evil/SKILL.md", "alias/new.md", "/skills/a/new.md"} {
		e.refuse(policy.CodePathReadOnly, "write_file", args{"path": p, "content": "mine"})
	}
	read, refused := 0, 0
	for _, r := range events[event.ResourceRead](e) {
		if r.Status == "read" && r.Path == "references/one.md" {
			read++
		}
		if r.Code == "resource_too_deep" {
			refused++
		}
	}
	if read != 3 || refused != 8 {
		t.Errorf("%d reads and %d refusals recorded, want 3 and 8", read, refused)
	}
}

// A skill can be linked into a folder of skills, and a skill's folder can contain others. A search
// shows nothing that read_file would count as a read of a skill.
func TestSearchLeavesInstructionsOut(t *testing.T) {
	t.Parallel()
	for _, guard := range []settings.GuardAllow{settings.GuardAllowNone, settings.GuardAllowSkillDirs, settings.GuardAllowRoots} {
		links := func(e *env, _ *WorkspaceOptions) {
			e.link(e.at("packages/a"), "skills/a")
			e.link(e.at("packages/a/b"), "skills/b")
		}
		e := newEnv(t, setup{profile: "keen", roots: []string{"skills"}, symlinks: settings.SymlinksInBounds, options: links, files: func(o *Options) { o.Guard = guard }}, map[string]string{
			"packages/a/SKILL.md": skillText("a") + "needle\n", "packages/a/b/SKILL.md": skillText("b") + "needle\n", "packages/a/b/notes.md": "needle\n",
			"packages/a/notes.md": "needle\n", "packages/plain.md": "needle\n", "skills/c/SKILL.md": skillText("c") + "needle\n",
		})
		const left = "[SKILL.md is not searched; load the skill, or read the file]\n"
		for _, c := range []struct{ path, glob, want string }{
			{".", "", "packages/plain.md:1: needle\n[2 folder(s) of skills left out: packages/a, skills]\n"},
			{"packages", "", "packages/plain.md:1: needle\n[1 folder(s) of skills left out: a]\n"},
			{"packages/a", "", "packages/a/notes.md:1: needle\n" + left + "[2 file(s) of other skills left out]\n"},
			{"packages/a", "notes.md", "packages/a/notes.md:1: needle\n[1 file(s) of other skills left out]\n"},
			{"packages/a/b", "", "packages/a/b/notes.md:1: needle\n" + left},
			{"packages/a/SKILL.md", "", "[no match in 0 file(s)]\n" + left},
			{"skills/c", "", "[no match in 0 file(s)]\n" + left},
		} {
			o := e.call("search_files", args{"pattern": "needle", "path": c.path, "glob": c.glob})
			if diff := cmp.Diff(c.want, o.Text()); diff != "" {
				t.Errorf("%s: %s %s (-want +got):\n%s", guard, c.path, c.glob, diff)
			}
		}
		for _, r := range events[event.ResourceRead](e) {
			if strings.Contains(r.Path, "SKILL.md") {
				t.Errorf("read: %+v", r)
			}
		}
	}
}
