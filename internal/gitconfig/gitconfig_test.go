package gitconfig_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"metier/internal/gitconfig"
)

func list(text string) []string {
	var out []string
	for name, value := range gitconfig.Variables(text) {
		out = append(out, name+"\n"+value)
	}
	return out
}

// git lists a file's variables. It returns false if git rejects the file.
func git(t testing.TB, text string) ([]string, bool) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := exec.Command("git", "config", "--file", file, "--no-includes", "--null", "--list").Output()
	if err != nil {
		return nil, false
	}
	var out []string
	for _, v := range strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00") {
		if strings.Contains(v, "\n") { // a key without a value is true, and names no path
			out = append(out, v)
		}
	}
	return out, true
}

// Every spelling that git accepts gives the value that git reads.
func TestVariables_AreThoseOfGit(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"[core]\n\thooksPath = a/b\n", "[core] hooksPath=a/b # comment\n", "[CORE]\nHOOKSPATH = a/b ; comment\n", "\ufeff[core]\r\n\thooksPath = a/b\r\n",
		"[core]\nhooksPath = h\\\nk\n", "[core]\nhooksPath = \"h\"k\n", "[core]\nhooksPath = \" h # k \" # c\n", "[core]\nhooksPath = a\\\\b\\\"c\\td\n",
		"[include]\npath = a\n[include]\n  path=b\n", "[includeIf \"gitdir:~/x\\\"y\\\\\"] path = c\n", "[includeIf\r\"gitdir:/\"]path = c\n", "[core.sub]\nhooksPath = a\n", "[core]\nhooksPath\nbare = true\n",
		"[a]\nb = \n[c]\nd = e  f  \n", "# [core]\n; x = y\n[core]\n  a = b", "[core]\nx = a\\\n  b\n", "[core]\nx = \"a\\\nb\"\n",
	} {
		want, ok := git(t, text)
		if !ok {
			t.Errorf("git rejects %q", text)
			continue
		}
		if diff := cmp.Diff(want, list(text)); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

func TestVariables_ContinuesAfterErrors(t *testing.T) {
	t.Parallel()
	want := []string{"core.hookspath\na", "core.x\nb"}
	if diff := cmp.Diff(want, list("[core\n!\n[core]\nhooksPath = a\n= x\n[a \"b\n[c \"d\" ]\nx = b")); diff != "" {
		t.Error(diff)
	}
}

// A file that git wrote has the names that git reads.
func TestNames_OfFilesThatGitWrote(t *testing.T) {
	t.Parallel()
	key := rapid.SampledFrom([]string{"core.bare", "core.fsmonitor", "remote.origin.url", "remote.a b.Fetch", "branch.a/b.merge", "submodule.x.y.url", "include.path"})
	value := rapid.SampledFrom([]string{"", "true", "a b", " a ", "a;b", "#", "é", "\"", "a\\b", "a\tb", "a\nb", "[x]", "= y"})
	rapid.Check(t, func(r *rapid.T) {
		file := filepath.Join(t.TempDir(), "config")
		for range rapid.IntRange(1, 6).Draw(r, "variables") {
			if out, err := exec.Command("git", "config", "--file", file, "--add", key.Draw(r, "key"), value.Draw(r, "value")).CombinedOutput(); err != nil {
				r.Fatalf("%v: %s", err, out)
			}
		}
		b, err := os.ReadFile(file)
		if err != nil {
			r.Fatal(err)
		}
		out, err := exec.Command("git", "config", "--file", file, "--no-includes", "--null", "--name-only", "--list").Output()
		if err != nil {
			r.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if got, ok := gitconfig.Names(string(b)); !ok || !slices.Equal(want, got) {
			r.Fatalf("%q: ok %v:\n%s", b, ok, cmp.Diff(want, got))
		}
	})
}

// Whatever Names accepts has the names that git reads, or git rejects it.
func TestNames_AreThoseOfGitInRandomTexts(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"[core]\n", "[a \"b\"]\n", "[a", "]", "\n", "\n", " ", "\t", "\r", "key", "\nx = ", "\nfsmonitor", "=", "\"", "\\", "\\\n", "#", ";", "value", "\ufeff", "\x00", "é"})
	accepted := 0
	rapid.Check(t, func(r *rapid.T) {
		text := "[core]\n" + strings.Join(rapid.SliceOfN(part, 0, 12).Draw(r, "parts"), "")
		got, ok := gitconfig.Names(text)
		if !ok {
			return
		}
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			r.Fatal(err)
		}
		out, err := exec.Command("git", "config", "--file", file, "--no-includes", "--null", "--name-only", "--list").Output()
		if err != nil {
			return
		}
		accepted++
		var want []string
		if len(out) > 0 {
			want = strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		}
		if !slices.Equal(want, got) {
			r.Fatalf("%q:\n%s", text, cmp.Diff(want, got))
		}
	})
	if accepted == 0 {
		t.Error("git and Names accepted none of the texts")
	}
}

// Random texts that git accepts give what git reads.
func TestVariables_AreThoseOfGitInRandomTexts(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"[core]", "[a \"b\"]", "[a.b]", "[a", "\"b\"]", "\r", "\n", " ", "\t", "\r\n", "key", "hooksPath", "=", " = ", "\"", "\\\\", "\\\"", "\\n", "\\\n", "#", ";", "value", "x/y", "~/", "]", "é"})
	tried := 0
	rapid.Check(t, func(r *rapid.T) {
		text := "[core]\n" + strings.Join(rapid.SliceOfN(part, 0, 20).Draw(r, "parts"), "")
		want, ok := git(t, text)
		if !ok {
			return
		}
		tried++
		got := list(text)
		for _, values := range [][]string{want, got} { // older versions read these characters in a value as spaces
			for i, v := range values {
				values[i] = strings.NewReplacer("\t", " ", "\r", " ").Replace(v)
			}
		}
		if !slices.Equal(want, got) {
			r.Fatalf("%q: %s", text, cmp.Diff(want, got))
		}
	})
	if tried == 0 {
		t.Error("git accepted none of the texts")
	}
}
