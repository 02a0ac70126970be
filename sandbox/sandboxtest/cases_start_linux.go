package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"metier/sandbox"
)

// Cases 34 and 35: the job's bytes run, even if files on the host change.
func stagedWays() []way {
	changed := "script changed between approval and run"
	return []way{
		{number: 34, name: changed, by: "a staged copy on the host", do: (*cell).rewriteStaged},
		{number: 34, name: changed, by: "the original", careless: true, do: func(c *cell) { c.rewriteOriginal(false) }},
		{number: 35, name: "same size and time, other bytes", careless: true, do: func(c *cell) { c.rewriteOriginal(true) }},
	}
}

const approved, tampered = "as approved", "is tampered"

// rewriteStaged changes every file in the cell that has the name of a staged
// file, while the program that will read it runs.
func (c *cell) rewriteStaged() {
	j := c.attack("cat-late", attackTree+"/late.txt")
	j.Trees[0].Files = append(j.Trees[0].Files, sandbox.File{Path: "late.txt", Data: []byte(approved)})
	r := c.hold(j, func([]process) {
		_ = filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
			case p == "/usr" || p == "/proc" || p == "/sys" || p == "/cell":
				return fs.SkipDir
			case d.Name() == "late.txt":
				c.must(os.Chmod(p, 0o600))
				c.must(os.WriteFile(p, []byte(tampered), 0o600))
			}
			return nil
		})
	})
	c.approvedOnly(r)
}

func (c *cell) approvedOnly(r sandbox.Result) {
	switch {
	case bytes.Contains(r.Stdout, []byte(tampered)):
		c.harm("the program ran bytes that are not the job's")
	case !bytes.Contains(r.Stdout, []byte(approved)):
		c.broken("the job's own bytes did not run: exit %d, %q, %q", r.Exit, r.Stdout, r.Stderr)
	}
}

func (c *cell) rewriteOriginal(sameTime bool) {
	dir := "/home/victim/skill"
	name := dir + "/run"
	c.bait.file(name, "#!/bin/sh\necho "+approved+"\n")
	c.must(os.Chmod(name, 0o755))
	b, err := os.ReadFile(name)
	c.must(err)
	before, err := os.Stat(name)
	c.must(err)
	if l, ok := c.box.(*careless); ok {
		l.origin = map[string]string{"/skills/s": dir}
	}
	j := c.attack()
	j.Trees = append(j.Trees, sandbox.Tree{Path: "/skills/s", Files: []sandbox.File{{Path: "run", Exec: true, Data: bytes.Clone(b)}}})
	j.Argv = []string{"/skills/s/run"}
	c.must(os.WriteFile(name, []byte("#!/bin/sh\necho "+tampered+"\n"), 0o755))
	if sameTime {
		c.must(os.Chtimes(name, before.ModTime(), before.ModTime()))
	}
	c.approvedOnly(c.run(j))
}

// Cases 77 to 84: how a program starts and what it finds there. The planner
// decides which interpreter runs a script and what its shebang may contain.
func startWays() []way {
	list := []way{
		{number: 77, name: "arguments arrive unchanged", careless: true, do: (*cell).arguments},
		{number: 78, name: "a program whose name begins with a dash", careless: true, do: (*cell).dashed},
		{number: 79, name: "shebang", by: "an interpreter of the host", do: (*cell).hostInterpreter},
		{number: 80, name: "the environment contains only the job's variables", careless: true, do: (*cell).environment},
		{number: 81, name: "PATH never searches the working folder", careless: true, do: func(c *cell) { c.planted("mytool", "mytool") }},
		{number: 82, name: "planted in the working folder", by: "python3", careless: true, do: func(c *cell) { c.planted("python3", "python3", "--version") }},
		{number: 83, name: "relative paths", by: "out of the tree", do: func(c *cell) { c.relative("../../../../../../etc/shadow") }},
		{number: 83, name: "relative paths", by: "within the tree", careless: true, do: func(c *cell) { c.relative("lib/inside") }},
		{number: 84, name: "a host file read by a runtime", do: (*cell).runtimeReads},
	}
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		list = append(list, way{number: 82, name: "planted in the working folder", by: "sitecustomize.py", careless: true, do: (*cell).sitecustomize})
	}
	return list
}

func (c *cell) arguments() {
	args := []string{"-c", "--", "-e", "", " ", "a b", ";id", "$(echo harmed > /home/victim/.bashrc)", "`id`", "*", "~", "two\nlines", "\\", "'\"", "\xff\xfe",
		"; echo harmed > /home/victim/.bashrc", "--help", strings.Repeat("x", 100<<10)}
	r := c.run(c.limited(c.attack(append([]string{"args"}, args...)...), sandbox.Limits{Output: 1 << 20}))
	var want strings.Builder
	for _, a := range args {
		fmt.Fprintf(&want, "%q\n", a)
	}
	if string(r.Stdout) != want.String() {
		c.broken("arguments arrived as %q", short(r.Stdout))
	}
	if !same("/home/victim/.bashrc", "# as it was\n") {
		c.harm("an argument was run")
	}
	for _, bad := range []string{"nul\x00byte", strings.Repeat("x", 1<<20)} {
		r, err := c.try(context.Background(), c.limited(c.attack("args", bad), sandbox.Limits{Output: 4 << 20}))
		if err == nil && string(r.Stdout) != fmt.Sprintf("%q\n", bad) {
			c.broken("an argument of %d bytes arrived as %q", len(bad), short(r.Stdout))
		}
	}
}

func (c *cell) limited(j sandbox.Job, l sandbox.Limits) sandbox.Job {
	j.Limits = l
	return j
}

func (c *cell) dashed() {
	j := c.attack("-x", "ok", "ran")
	j.Trees[0].Files = append(j.Trees[0].Files, sandbox.File{Path: "-x", Exec: true, Data: []byte("#!/bin/sh\necho ran\n")})
	for _, argv := range [][]string{{attackTree + "/-x"}, {"-x"}} {
		j.Argv = argv
		j.Env = []string{"PATH=" + attackTree + ":/usr/bin:/bin"}
		if r := c.run(j); string(r.Stdout) != "ran\n" {
			c.broken("%q gave exit %d, %q, %q", argv, r.Exit, r.Stdout, r.Stderr)
		}
	}
}

// hostInterpreter runs a script whose shebang names a program on the host.
func (c *cell) hostInterpreter() {
	c.bait.file("/home/victim/evil", "#!/bin/sh\ncat /etc/shadow\n")
	c.must(os.Chmod("/home/victim/evil", 0o755))
	j := c.attack()
	j.Trees[0].Files = append(j.Trees[0].Files, sandbox.File{Path: "script", Exec: true, Data: []byte("#!/home/victim/evil\necho hello\n")})
	j.Argv = []string{attackTree + "/script"}
	r, err := c.try(context.Background(), j)
	if err == nil && r.Exit == 0 {
		c.harm("a host interpreter ran a script: %q", r.Stdout)
	}
}

func (c *cell) environment() {
	for _, kv := range []string{"BASH_ENV=/home/victim/evil", "ENV=/home/victim/evil", "PYTHONPATH=/home/victim", "NODE_OPTIONS=--require=/home/victim/evil", "GIT_SSH_COMMAND=/home/victim/evil",
		"SSH_AUTH_SOCK=" + agent, "GODEBUG=x=1", "LANG=xx", "HOME=/home/victim"} {
		k, v, _ := strings.Cut(kv, "=")
		c.must(os.Setenv(k, v))
	}
	j := c.attack("environ")
	j.Env = append(j.Env, "EMPTY=", "EQUALS=a=b", "LINES=a\nb", "SPACE= ")
	r := c.run(j)
	got := strings.Split(strings.TrimSuffix(string(r.Stdout), "\n"), "\n")
	var want []string
	for _, kv := range j.Env {
		want = append(want, fmt.Sprintf("%q", kv))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.broken("the environment is %q, want %q", got, want)
	}
}

// planted runs a program by name while the working folder holds a program of
// the same name.
func (c *cell) planted(name string, argv ...string) {
	dir := c.workspace()
	c.bait.file(dir+"/"+name, "#!/bin/sh\necho PLANTED\n")
	c.must(os.Chmod(dir+"/"+name, 0o755))
	j := c.attack()
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	j.Argv = argv
	r, _ := c.try(context.Background(), j)
	if bytes.Contains(r.Stdout, []byte("PLANTED")) {
		c.harm("%s of the working folder ran", name)
	}
}

func (c *cell) sitecustomize() {
	dir := c.workspace("sitecustomize.py=print('PLANTED')", "usercustomize.py=print('PLANTED')", "json.py=print('PLANTED')")
	j := c.attack()
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	j.Trees[0].Files = append(j.Trees[0].Files, sandbox.File{Path: "a.py", Data: []byte("import json, sibling\n")}, sandbox.File{Path: "sibling.py", Data: []byte("print('imported')\n")})
	j.Argv = []string{"/usr/bin/python3", attackTree + "/a.py"}
	r := c.run(j)
	if bytes.Contains(r.Stdout, []byte("PLANTED")) {
		c.harm("a module of the working folder was loaded")
	}
	if !bytes.Contains(r.Stdout, []byte("imported")) {
		c.broken("a module beside the script was not loaded: %q", short(r.Stderr))
	}
}

// relative reads a relative path from the tree.
func (c *cell) relative(path string) {
	j := c.attack("cat", path)
	j.Trees[0].Files = append(j.Trees[0].Files, sandbox.File{Path: "lib/inside", Data: []byte("within\n")})
	j.Dir = attackTree
	r := c.run(j)
	if path == "lib/inside" && !bytes.Contains(r.Stdout, []byte("within")) {
		c.broken("a file of the tree was not found by a relative path: %q", r.Stderr)
	}
}

// runtimeReads reads a file with a shell. The sandbox must not depend on what
// the shell allows.
func (c *cell) runtimeReads() {
	j := c.attack()
	j.Argv = []string{"/bin/sh", "-c", "while read line; do echo \"$line\"; done < /home/victim/.netrc"}
	_, err := c.try(context.Background(), c.limited(j, sandbox.Limits{Wall: 5 * time.Second}))
	if err != nil {
		c.broken("the shell did not start: %v", err)
	}
}
