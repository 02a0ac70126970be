package sandboxtest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"metier/sandbox"
)

// Cases 85 and 86: files that a program must not read or write.
func fileWays() []way {
	read, write := "read what is not the job's", "write what is not the job's"
	return []way{
		{number: 85, name: read, by: "credentials by their paths", do: func(c *cell) { c.run(c.attack(append([]string{"cat"}, guarded...)...)) }},
		{number: 85, name: read, by: "everything that can be opened", do: func(c *cell) { c.run(c.attack("scan", secretMark)) }},
		{number: 85, name: read, by: "files of another job", do: (*cell).otherJob},
		{number: 85, name: read, by: "files of root in a visible folder", rootOnly: true, prepare: visibleBait, do: (*cell).visible},
		{number: 85, name: read, by: "hidden files of the workspace", do: (*cell).hidden},
		{number: 85, name: read, by: "hidden files of a moved folder", do: (*cell).hiddenMoved},
		{number: 86, name: write, by: "the tree of the skill", do: (*cell).writeTree},
		{number: 86, name: write, by: "a read-only workspace", do: (*cell).writeReadOnly},
		{number: 86, name: write, by: "protected files of the workspace", do: func(c *cell) {
			c.writeProtected("plant", "/workspace/.git/hooks/pre-commit", "/workspace/.git/hooks/new", "/workspace/.git/config", "/workspace/.vscode/tasks.json", "/workspace/absent/file")
		}},
		{number: 86, name: write, by: "protected files, by moving a folder above", do: func(c *cell) { c.writeProtected("replant", "/workspace/.git", "hooks", "pre-commit") }},
		{number: 86, name: write, by: "protected files, by moving themselves", do: func(c *cell) { c.writeProtected("replant", "/workspace/.git/hooks", ".", "pre-commit") }},
		{number: 86, name: write, by: "an absent protected folder, two levels deep", do: func(c *cell) { c.writeProtected("replant", "/workspace/deep", "er", "file") }},
		{number: 86, name: write, by: "protected files behind a link", do: (*cell).writeLinked},
		{number: 86, name: write, by: "home and system", do: (*cell).writeHome},
	}
}

// otherJob looks for what another job has in its folders while that job runs.
func (c *cell) otherJob() {
	secret := c.bait.secret("another job")
	j := c.attack()
	j.Workspace = &sandbox.Workspace{Host: c.workspace(), Writable: true}
	j.Argv = []string{"/bin/sh", "-c", "read s; for f in /tmp /dev/shm \"$HOME\"; do echo $s > $f/stash; done; echo HOLD; read s"}
	in, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = io.WriteString(feed, secret+"\n") }()
	j.Stdin = in
	j.MinLevel = c.level()
	j.Stdout = watcher(func() {
		c.run(c.attack("scan", secretMark))
		go func() { _ = feed.Close() }()
	})
	if r, err := c.box.Run(context.Background(), j); err != nil || !bytes.Contains(r.Stdout, []byte("HOLD")) {
		c.broken("the other job: %+v, %v", r, err)
	}
}

// visibleBait puts a secret into a visible folder that only root may read.
func visibleBait(s *spec) error {
	s.Token = secretMark + "visible-9c8b7a6d5e4f"
	if err := os.MkdirAll(Visible, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(Visible+"/closed", []byte(s.Token), 0o600); err != nil {
		return err
	}
	return os.WriteFile(Visible+"/open", []byte("seen"), 0o644)
}

// visible reads it from a workspace of root, whose files the program may have to own. What it
// creates there must belong to root.
func (c *cell) visible() {
	c.bait.secrets["a visible folder"] = c.spec.Token
	dir := c.workspace()
	j := c.attack("cat", Visible+"/closed", Visible+"/open")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	if r := c.run(j); !bytes.Contains(r.Stdout, []byte("seen")) {
		c.broken("the visible folder is missing: %q", short(r.Stderr))
	}
	j = c.attack("write", "/workspace/made")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	c.run(j)
	var st unix.Stat_t
	if err := unix.Lstat(dir+"/made", &st); err != nil || st.Uid != 0 || st.Gid != 0 {
		c.broken("a file of the program belongs to %d:%d, %v", st.Uid, st.Gid, err)
	}
}

func (c *cell) hidden() {
	s := c.bait.secret("a hidden file")
	dir := c.workspace(".env="+s, "conf/keys/a="+s, "seen=seen")
	c.must(os.Symlink(".env", dir+"/link"))
	j := c.attack("cat", "/workspace/.env", "/workspace/link", "/workspace/conf/keys/a", "/workspace/seen")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true, Hidden: []string{".env", "conf/keys", "nothing/here"}}
	if r := c.run(j); !bytes.Contains(r.Stdout, []byte("seen")) {
		c.broken("the rest of the workspace is missing: %q", short(r.Stderr))
	}
	if !same(dir+"/.env", s) || !same(dir+"/conf/keys/a", s) {
		c.harm("hidden files changed")
	}
}

func (c *cell) hiddenMoved() {
	s := c.bait.secret("a hidden file")
	dir := c.workspace("conf/keys/a=" + s)
	j := c.attack("peek", "/workspace/conf", "keys/a")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true, Hidden: []string{"conf/keys"}}
	c.run(j)
}

func (c *cell) writeTree() {
	c.hold(c.attack("plant", attackTree+"/data", attackTree+"/new"), func(pids []process) {
		staged, _ := filepath.Glob("/tmp/metier-unsafe-*" + attackTree + "/*") // where a backend without isolation stages it
		for _, p := range pids {
			staged = append(staged, "/proc/"+itoa(p.pid)+"/root"+attackTree+"/data", "/proc/"+itoa(p.pid)+"/root"+attackTree+"/new")
		}
		for _, p := range staged {
			if same(p, "harmed\n") {
				c.harm("%s was written", p)
			}
		}
	})
}

func (c *cell) writeReadOnly() {
	dir := c.workspace("file=kept", "sub/file=kept")
	before := tree(dir)
	j := c.attack("plant", "/workspace/file", "/workspace/new", "/workspace/sub/new")
	j.Workspace = &sandbox.Workspace{Host: dir}
	c.hold(j)
	if now := tree(dir); !slices.Equal(before, now) {
		c.harm("the workspace changed: %q", now)
	}
}

// writeProtected runs an attack on a workspace in which some paths, including
// absent ones, must not change.
func (c *cell) writeProtected(args ...string) {
	dir := c.workspace(".git/hooks/pre-commit=kept", ".git/config=kept", ".git/HEAD=free", "free=free")
	protected := []string{".git/hooks", ".git/config", ".vscode/tasks.json", "absent", "deep/er/file"}
	j := c.attack(args...)
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: protected}
	c.hold(j)
	if !same(dir+"/.git/hooks/pre-commit", "kept") || !same(dir+"/.git/config", "kept") {
		c.harm("protected files changed: %q", tree(dir))
	}
	for _, p := range []string{".git/hooks/new", ".vscode/tasks.json", "absent/file", "deep/er/file"} {
		if _, err := os.Stat(dir + "/" + p); err == nil {
			c.harm("%s was created", p)
		}
	}
	j = c.attack("write", "/workspace/made")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: protected}
	if c.run(j); !same(dir+"/made", "harmed\n") {
		c.broken("a writable workspace was not written")
	}
	if fi, err := os.Stat(dir + "/made"); err == nil && !fi.Mode().IsRegular() {
		c.broken("the written file is %v", fi.Mode())
	}
}

// writeLinked protects a path that passes through a link, and writes to the
// link's target. A backend may refuse such a job.
func (c *cell) writeLinked() {
	dir := c.workspace("git/hooks/pre-commit=kept")
	c.must(os.Symlink("git", dir+"/.git"))
	j := c.attack("plant", "/workspace/.git/hooks/pre-commit", "/workspace/git/hooks/pre-commit", "/workspace/git/hooks/new")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: []string{".git/hooks"}}
	if _, err := c.held(j); err != nil {
		c.log("refused: %v", err)
	}
	if _, err := os.Stat(dir + "/.git/hooks/new"); err == nil || !same(dir+"/.git/hooks/pre-commit", "kept") {
		c.harm("protected files changed: %q", tree(dir))
	}
}

func (c *cell) writeHome() {
	c.bait.file("/home/victim/repo/.git/hooks/pre-commit", "kept")
	c.bait.file("/etc/profile", "kept")
	c.run(c.attack("plant", "/home/victim/.bashrc", "/home/victim/repo/.git/hooks/pre-commit", "/etc/profile", "/usr/bin/sh", "/bin/sh", "/root/.ssh/authorized_keys", "/cell/test"))
	for p, text := range map[string]string{"/home/victim/.bashrc": "# as it was\n", "/home/victim/repo/.git/hooks/pre-commit": "kept", "/etc/profile": "kept"} {
		if !same(p, text) {
			c.harm("%s changed", p)
		}
	}
}
