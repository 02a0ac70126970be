package filetool

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"metier"
	"metier/policy"
)

func TestPathsAModelMayWrite(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) {
		e.put("OUT/data/d.txt", "d\n")
		e.put("OUT/store/s.txt", "s\n")
		o.Cwd = "sub"
		o.Mounts = []Mount{{Name: "data", Source: e.at("OUT/data"), Target: "/data"}, {Name: "store", Source: e.at("OUT/store"), Target: "/workspace/store", Mode: "rw"}}
	}}, map[string]string{"a.txt": "a\n", "sub/b.txt": "b\n", "sub/~/c.txt": "c\n", "sub/%2e%2e/p.txt": "p\n", "HOME/h.txt": "h\n"})
	for p, want := range map[string]struct {
		path, mount, rel string
		zone             policy.Zone
	}{
		"b.txt":                  {"/workspace/sub/b.txt", "", "sub/b.txt", policy.ZoneWorkspace},
		"./b.txt":                {"/workspace/sub/b.txt", "", "sub/b.txt", policy.ZoneWorkspace},
		"/workspace/a.txt":       {"/workspace/a.txt", "", "a.txt", policy.ZoneWorkspace},
		"/workspace//sub/b.txt":  {"/workspace/sub/b.txt", "", "sub/b.txt", policy.ZoneWorkspace},
		"/workspace":             {"/workspace", "", ".", policy.ZoneWorkspace},
		e.path("a.txt"):          {"/workspace/a.txt", "", "a.txt", policy.ZoneWorkspace},
		"./~/c.txt":              {"/workspace/sub/~/c.txt", "", "sub/~/c.txt", policy.ZoneWorkspace},
		"%2e%2e/p.txt":           {"/workspace/sub/%2e%2e/p.txt", "", "sub/%2e%2e/p.txt", policy.ZoneWorkspace},
		"new/file":               {"/workspace/sub/new/file", "", "sub/new/file", policy.ZoneWorkspace},
		"/data/d.txt":            {"/data/d.txt", "data", "d.txt", policy.ZoneWorkspace},
		e.path("OUT/data/d.txt"): {"/data/d.txt", "data", "d.txt", policy.ZoneWorkspace},
		"/workspace/store/s.txt": {"/workspace/store/s.txt", "store", "s.txt", policy.ZoneWorkspace},
		"~/h.txt":                {e.path("HOME/h.txt"), "", "", policy.ZoneOutside},
		"/workspacex/a.txt":      {"/workspacex/a.txt", "", "", policy.ZoneOutside},
		"/database/d.txt":        {"/database/d.txt", "", "", policy.ZoneOutside},
	} {
		got, err := e.ws.Resolve(p, false)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		if got.Path != want.path || got.Mount != want.mount || got.Rel != want.rel || got.Zone != want.zone {
			t.Errorf("%s: %+v, want %+v", p, got, want)
		}
	}
	e.refuse(policy.CodePathReadOnly, "write_file", args{"path": "/data/new", "content": "x"})
	if o := e.call("write_file", args{"path": "/workspace/store/new", "content": "x"}); o.Code() != "" || e.content("OUT/store/new") != "x" {
		t.Errorf("rw mount: %s", o.Text())
	}
	if o := e.call("list_files", nil); !strings.Contains(o.Text(), "b.txt\n") || strings.Contains(o.Text(), "a.txt") {
		t.Errorf("the working folder: %s", o.Text())
	}
}

func TestPathsThatCannotBeOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"a.txt": "a", "OUT/secret": "s"})
	for _, p := range []string{"", "a\x00.txt", "a.txt\x00", `..\a.txt`, `a\b`, "..", "../out/secret", "/workspace/../out/secret", "x/../../out/secret",
		"/workspace/x/..", "~/../out/secret", "a\xff.txt", strings.Repeat("a/", 3000) + "a", strings.Repeat("a", 300)} {
		if got, err := e.ws.Resolve(p, false); metier.KindOf(err) != metier.Invalid || metier.CodeOf(err) != "path_invalid" {
			t.Errorf("%.40q: %+v, %v", p, got, err)
		}
	}
	for _, p := range []string{"..%2fout%2fsecret", "%2e%2e/out/secret", "..%5cout%5csecret", "%252e%252e/out/secret", ".../out/secret", "..;/out/secret",
		"\u2024\u2024/out/secret", "\uff0e\uff0e/out/secret", "..\u2215out\u2215secret", "a.txt/../x"} {
		o, err := e.try("read_file", args{"path": p})
		if err != nil || o.Code() != "not_found" && o.Code() != "path_invalid" {
			t.Errorf("%q: %v %s", p, err, o.Text())
		}
	}
}

func TestZonesOfHostilePaths(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{options: func(e *env, o *WorkspaceOptions) { o.Denied = []string{e.at("OUT/denied")} }}, map[string]string{
		"in/f": "in\n", "OUT/secret": "s", "OUT/dir/f": "s", "OUT/denied/f": "s", "HOME/.ssh/id": "s", ".git/config": "c\n",
	})
	e.link("in", "good")
	e.link(e.at("in/f"), "goodfile")
	e.link(e.at("OUT/secret"), "leak")
	e.link(e.at("OUT"), "leakdir")
	e.link("../../out", "in/up")
	e.link("leakdir", "chain")
	e.link(e.at("HOME"), "home")
	e.link(".git", "git")
	e.link("gone", "dangling")
	e.link("loop2", "loop1")
	e.link("loop1", "loop2")
	e.link(e.at("OUT/dir"), "OUT/alias")
	for _, c := range []struct{ p, read, write string }{
		{"in/f", "", ""},
		{"good/f", "", policy.CodePathDenied},
		{"goodfile", "", policy.CodePathDenied},
		{"good/new/f", "not_found", policy.CodePathDenied},
		{"leak", policy.CodePathDenied, policy.CodePathDenied},
		{"leakdir/secret", policy.CodePathDenied, policy.CodePathDenied},
		{"leakdir/none", policy.CodePathDenied, policy.CodePathDenied},
		{"leakdir/new/deep/f", policy.CodePathDenied, policy.CodePathDenied},
		{"in/up/secret", policy.CodePathDenied, policy.CodePathDenied},
		{"chain/secret", policy.CodePathDenied, policy.CodePathDenied},
		{"chain/denied/f", policy.CodePathDenied, policy.CodePathDenied},
		{"home/.ssh/id", policy.CodePathDenied, policy.CodePathDenied},
		{"git/config", "", policy.CodePathReadOnly},
		{"git/hooks/post-checkout", "not_found", policy.CodePathReadOnly},
		{"dangling", "dangling_link", "dangling_link"},
		{"dangling/x", "dangling_link", "dangling_link"},
		{"loop1", "path_invalid", "path_invalid"},
		{e.path("OUT/secret"), "ask", policy.CodePathOutside},
		{e.path("OUT/alias/f"), "ask", policy.CodePathOutside},
		{e.path("OUT/denied/f"), policy.CodePathDenied, policy.CodePathDenied},
		{"/skills/none/SKILL.md", "skill_not_found", "skill_not_found"},
	} {
		if c.read == "" {
			e.read(c.p)
		} else {
			e.refuse(c.read, "read_file", args{"path": c.p})
		}
		if c.write != "" {
			e.refuse(c.write, "write_file", args{"path": c.p, "content": "mine"})
		}
	}
	if got := e.content("OUT/secret") + e.content("OUT/denied/f") + e.content("in/f") + e.content(".git/config"); got != "ssin\nc\n" {
		t.Errorf("something was written: %q", got)
	}
	for _, p := range []string{"OUT/none", "OUT/new", "in/new", "gone", ".git/hooks"} {
		if _, err := os.Lstat(e.at(p)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made", p)
		}
	}
	if runtime.GOOS == "linux" {
		for _, p := range []string{"/proc/self/environ", "/dev/null", "/sys/kernel/profiling"} {
			e.refuse(policy.CodePathDenied, "read_file", args{"path": p})
		}
	}
}

func TestApprovedOutsideReadIsBoundToItsTarget(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"OUT/a/f": "a\n", "OUT/b/f": "b\n"})
	e.link(e.at("OUT/a"), "OUT/link")
	p := e.path("OUT/link/f")
	call := metier.Call{ID: "x", Tool: "read_file", Args: []byte(`{"path":"` + p + `"}`)}
	_, err := e.s.Call(t.Context(), call)
	q, ok := errors.AsType[*metier.NeedsApproval](err)
	if !ok || !strings.Contains(q.Question.Text, e.path("OUT/a/f")) {
		t.Fatalf("%v; the question must name the real file", err)
	}
	if err := e.s.Answer(t.Context(), "x", policy.Answer{Question: q.Question.ID, Allow: true, Scope: "once", By: "me"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(e.at("OUT/link")); err != nil {
		t.Fatal(err)
	}
	e.link(e.at("OUT/b"), "OUT/link")
	if _, err := e.s.Call(t.Context(), call); err == nil {
		t.Error("the approval of one file opened another")
	}
	if err := os.Remove(e.at("OUT/link")); err != nil {
		t.Fatal(err)
	}
	e.link(e.at("OUT/a"), "OUT/link")
	if o, err := e.s.Call(t.Context(), call); err != nil || o.Text() != "a\n" {
		t.Errorf("the approved file: %v %s", err, o.Text())
	}
}

// swapping calls a function between the decision and the act.
func swapping(do func()) func(*env, []metier.Tool) []metier.Tool {
	return func(_ *env, tools []metier.Tool) []metier.Tool {
		for i, tl := range tools {
			tools[i] = Enveloped(tl, func(ctx context.Context, _ metier.Call, act func(context.Context) (metier.Result, error)) (metier.Result, error) {
				do()
				return act(ctx)
			})
		}
		return tools
	}
}

func TestLinkSwappedInAfterTheDecision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tool, path string
		a                args
	}{
		{"read a file", "read_file", "d/f", args{}},
		{"write in a folder", "write_file", "d/new", args{"content": "mine"}},
		{"write over a file", "write_file", "d/f", args{"content": "mine"}},
		{"edit", "edit_file", "d/f", args{"old": "s", "new": "mine"}},
		{"list", "list_files", "d", args{}},
		{"search", "search_files", "d", args{"pattern": "s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var e *env
			e = newEnv(t, setup{tools: swapping(func() {
				if err := os.Rename(e.at("d"), e.at("moved")); err != nil {
					t.Error(err)
				}
				e.link(e.at("OUT"), "d")
			})}, map[string]string{"d/f": "s", "OUT/f": "s secret"})
			c.a["path"] = c.path
			o := e.refuse("path_changed", c.tool, c.a)
			if strings.Contains(o.Text(), "secret") {
				t.Error(o.Text())
			}
			if e.content("OUT/f") != "s secret" || e.content("OUT/new") != "absent" {
				t.Error("written outside")
			}
		})
	}
}

// A link that appears in the workspace may lead to a file that a rule denies.
func TestLinkSwappedInAfterTheDecision_WithinTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]args{"read_file": {"path": "d/f"}, "list_files": {"path": "d"}, "search_files": {"path": "d", "pattern": "s"}} {
		var e *env
		e = newEnv(t, setup{tools: swapping(func() {
			if err := os.Rename(e.at("d"), e.at("moved")); err != nil {
				t.Error(err)
			}
			e.link("denied", "d")
		})}, map[string]string{"d/f": "s", "denied/f": "s secret"})
		if o := e.refuse("path_changed", name, a); strings.Contains(o.Text(), "secret") {
			t.Error(o.Text())
		}
	}
}

func TestFolderSwappedForALinkAllTheTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"d/f": "in", "OUT/f": "secret"})
	e.link(e.at("OUT"), "l")
	if err := os.Mkdir(e.at("stop"), 0o755); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(e.at("d"), e.at("t")) // any of these may fail while the tools hold a name
			_ = os.Rename(e.at("l"), e.at("d"))
			_ = os.Rename(e.at("d"), e.at("l"))
			_ = os.Rename(e.at("t"), e.at("d"))
		}
	}()
	for range 150 {
		for tool, a := range map[string]args{"read_file": {"path": "d/f"}, "write_file": {"path": "d/g", "content": "mine"}, "search_files": {"path": "d", "pattern": "s"}} {
			if o, err := e.try(tool, a); err == nil && strings.Contains(o.Text(), "secret") {
				t.Errorf("%s leaked: %s", tool, o.Text())
			}
		}
	}
	close(stop)
	<-done
	list, err := os.ReadDir(e.out)
	if err != nil || len(list) != 1 || e.content("OUT/f") != "secret" {
		t.Errorf("outside was touched: %v %v", list, err)
	}
}

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"d/f": "x"})
	odd := []string{}
	if short, err := os.MkdirTemp("", "s"); err == nil { // a socket's path must be short
		defer os.RemoveAll(short)
		if l, err := net.Listen("unix", filepath.Join(short, "s")); err == nil {
			defer l.Close()
			if os.Rename(filepath.Join(short, "s"), e.at("sock")) == nil {
				odd = append(odd, "sock")
			}
		}
	}
	if mkfifo, err := exec.LookPath("mkfifo"); err == nil {
		if err := exec.CommandContext(t.Context(), mkfifo, e.at("fifo")).Run(); err != nil {
			t.Fatal(err)
		}
		odd = append(odd, "fifo")
	}
	if runtime.GOOS == "linux" && len(odd) == 0 {
		t.Fatal("neither a FIFO nor a socket could be made")
	}
	for _, p := range odd {
		e.refuse("not_regular", "read_file", args{"path": p})
		e.refuse("not_regular", "write_file", args{"path": p, "content": "x"})
		e.refuse("not_regular", "edit_file", args{"path": p, "old": "x", "new": "y"})
	}
	e.refuse("is_folder", "read_file", args{"path": "d"})
	e.refuse("is_folder", "write_file", args{"path": "d", "content": "x"})
	e.refuse("not_folder", "list_files", args{"path": "d/f"})
	e.refuse(policy.CodePathDenied, "write_file", args{"path": "/workspace", "content": "x"})
	if o := e.call("search_files", args{"pattern": "x"}); !strings.Contains(o.Text(), "d/f:1: x") {
		t.Error(o.Text())
	}
}

func TestOpenWorkspaceNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for code, c := range map[string]struct {
		root string
		o    WorkspaceOptions
	}{
		"workspace_not_found":  {root: filepath.Join(dir, "none")},
		"workspace_unreadable": {root: filepath.Join(dir, "file")},
		"cwd_invalid":          {root: dir, o: WorkspaceOptions{Cwd: "../x"}},
		"mount_invalid":        {root: dir, o: WorkspaceOptions{Mounts: []Mount{{Source: dir, Target: "/workspace"}}}},
	} {
		if _, err := OpenWorkspace(c.root, &c.o); metier.CodeOf(err) != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	for _, m := range []Mount{{Source: dir, Target: "/skills"}, {Source: dir, Target: "/skills/x"}, {Source: dir, Target: "rel"}, {Source: dir, Target: "/"}, {Source: dir, Target: "/a/../b"}, {Source: dir, Target: "/a", Mode: "x"}} {
		if _, err := OpenWorkspace(dir, &WorkspaceOptions{Mounts: []Mount{m}}); metier.CodeOf(err) != "mount_invalid" {
			t.Errorf("%+v: %v", m, err)
		}
	}
}
