package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"metier/internal/shell"
)

func TestPasses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"env make": true, "xargs rm": true, "find . -exec rm": true, "/usr/bin/timeout 5 x": true, "sudo x": true, "busybox sh": true, "/lib64/ld-linux-x86-64.so.2 x": true,
		"sh -c x": true, "bash --norc -ec x": true, "bash": true, "bash -s": true, "-bash -c x": true, "bash /dev/fd/63": true, "sh -": true, "zsh -c x": true, "bash --rcfile x": true, "bash -o pipefail -c x": true,
		"bash x.sh": false, "sh -e x.sh -c": false, "bash --rcfile x y": false, "bash -o pipefail x": false, "bash -- x": false, "sh - x": false,
		"awk BEGIN{}": true, "awk -f x": false, "sed -f x": false, "sed s/a/b/": true,
		"tar -I x": true, "split --filter=x": true,
		"make": false, "python3 x": false, "npm test": false, "git status": false, "git bisect run x": true, "go tool x": true, "./x.sh": false, "unknown x": false, "ls": false,
	} {
		if got := shell.Passes(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	if shell.Passes(nil) {
		t.Error("no words")
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"ls rm": "", "": "", "git push": "", "busybox": "",
		"git -C a push": "[[git a push] [git push]]",
		"git-push x":    "[[git push x]]",
		"git pussh x":   "[[git ?]]", "git lfs push": "", "git -c a=b -P push": "[[git a=b -P push] [git -P push] [git push]]", "git --help pussh": "[[git pussh]]",
		"bash x y": "[[x y]]", "bash --norc x": "[[bash x] [x]]", "bash -c x": "[[bash x]]",
		"busybox rm x":                                    "[[rm x]]",
		"/bin/busybox rm x":                               "[[rm x]]",
		"coreutils --coreutils-prog=rm x":                 "[[coreutils x] [--coreutils-prog=rm x] [rm x]]",
		"ld-linux.so.2 --library-path a b c":              "[[ld-linux.so.2 a b c] [ld-linux.so.2 b c] [a b c] [?] [b c] [?]]",
		"ld-linux.so.2 b -c d":                            "[[b -c d] [?]]", // in the path of the libraries
		"ld-linux.so.2 ./b -c d":                          "[[./b -c d]]",
		"busybox1 rm x":                                   "[[rm x]]",
		"busybox busybox rm x":                            "[[busybox rm x] [rm x]]",
		"toybox-x86_64 rm x":                              "[[rm x]]",
		"uu-coreutils rm x":                               "[[rm x]]",
		"git" + strings.Repeat(" -P", 31) + " push":       "…[git ?]]",
		"git" + strings.Repeat(" -P", 31):                 "…[git -P]]",
		"git" + strings.Repeat(" -P", 29) + " push x y z": "…[git push x y z] [git x y z]]",
	} {
		in := [][]string{strings.Fields(line)}
		got := shell.Lines(in)
		if fmt.Sprint(got[:1]) != fmt.Sprint(in) {
			t.Errorf("%s: begins with %v", line, got[0])
		}
		s := strings.ReplaceAll(fmt.Sprint(got[1:]), shell.Dynamic, "?")
		if rest, long := strings.CutPrefix(want, "…"); long && strings.HasSuffix(s, rest) {
			continue
		}
		if s != want && !(s == "[]" && want == "") {
			t.Errorf("%s: %s, want %s", line, s, want)
		}
	}
	// A link to a program with others is the one that its name says, if that is one of them.
	for _, tt := range []struct {
		in   [][]string
		want string
	}{
		{[][]string{{"ls", "rm"}, {"/usr/bin/busybox", "rm"}}, "[]"},
		{[][]string{{"ls", "rm"}, {"/usr/bin/coreutils", "rm"}}, "[]"},
		{[][]string{{"x", "rm", "y"}, {"/usr/bin/coreutils", "rm", "y"}}, "[[rm y]]"},
		{[][]string{{"uu-rm", "x"}, {"/usr/bin/coreutils", "x"}}, "[[rm x] [x]]"},
	} {
		if got := fmt.Sprint(shell.Lines(tt.in)[2:]); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.in, got, tt.want)
		}
	}
}
