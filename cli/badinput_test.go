package cli_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

// badInputCommands create hostile skills and read them with every command that
// prints skills.
var badInputCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"put": put, "listen": listens, "judge": judged, "skills": manySkills, "nest": nest, "clean": cleanFiles,
}

// put writes a file from parts in which Go escapes stand for their bytes;
// 100000*TEXT repeats TEXT: put bad/nul/SKILL.md '---\nname: n\x00\n---\n'. The
// path may contain escapes too.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: put FILE PART…")
	}
	var b strings.Builder
	for _, part := range args[1:] {
		times, text := 1, part
		if n, rest, ok := strings.Cut(part, "*"); ok {
			if i, err := strconv.Atoi(n); err == nil {
				times, text = i, rest
			}
		}
		b.WriteString(strings.Repeat(unescaped(ts, text), times))
	}
	file := ts.MkAbs(unescaped(ts, args[0]))
	ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
	ts.Check(os.WriteFile(file, []byte(b.String()), 0o644))
}

func unescaped(ts *testscript.TestScript, s string) string {
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		ts.Fatalf("%q: %v", s, err)
	}
	return out
}

// manySkills creates folders s00000 to s(N-1) in DIR, each a skill.
func manySkills(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: skills DIR N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for i := range n {
		dir := ts.MkAbs(filepath.Join(args[0], fmt.Sprintf("s%05d", i)))
		ts.Check(os.MkdirAll(dir, 0o755))
		text := fmt.Sprintf("---\nname: s%05d\ndescription: Does the work of number %d. Use when it is asked for.\n---\nText.\n", i, i)
		ts.Check(os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o644))
	}
}

// nest creates a tree N folders deep below DIR (in hundreds), longer than the
// maximum path length. It grows at its top, and is removed from there when the
// script ends.
func nest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: nest DIR N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	const step = 100 // folders created or removed at a time
	top, next, run := ts.MkAbs(args[0]), ts.MkAbs(args[0]+".next"), filepath.Join(slices.Repeat([]string{"d"}, step)...)
	ts.Check(os.MkdirAll(top, 0o755))
	ts.Defer(func() {
		for os.Rename(filepath.Join(top, run), next) == nil && os.RemoveAll(top) == nil && os.Rename(next, top) == nil {
		}
	})
	for range n / step {
		ts.Check(os.MkdirAll(filepath.Join(next, filepath.Dir(run)), 0o755))
		ts.Check(os.Rename(top, filepath.Join(next, run)))
		ts.Check(os.Rename(next, top))
	}
}

// cleanFiles fails for a file with terminal control or invisible characters.
func cleanFiles(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: clean FILE…")
	}
	for _, file := range args {
		clean(ts, file, strings.ReplaceAll(ts.ReadFile(file), "\r\n", "\n"))
	}
}

// judged reads the skill in ROOT/FOLDER with list, explain, show and validate,
// as text, as JSON and in a terminal:
//
//	judge ROOT FOLDER STATE CODE|- [FLAG…]
//
// It has to be in STATE with a finding of CODE (-: at most advice), and the good
// skill next to it has to be loaded. No command may take more than half a minute
// or print terminal control characters. FOLDER may contain Go escapes. FLAGs are
// passed to list, explain and show.
func judged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: judge ROOT FOLDER STATE CODE|- [FLAG…]")
	}
	root, folder, state, code := args[0], unescaped(ts, args[1]), args[2], args[3]
	flags := append([]string{"--skills-root", root}, args[4:]...)
	put(ts, false, []string{root + "/good/SKILL.md", `---\nname: good\ndescription: A good neighbour. Use when nothing else is.\n---\nText.\n`})
	subject := root + "/" + folder

	bounded(ts, append([]string{"list", "--all", "--json"}, flags...), 0)
	checkState(ts, folder, state, code)
	clean(ts, "list --json", ts.ReadFile("stdout"))
	bounded(ts, append([]string{"list", "--all"}, flags...), 0)
	if !strings.Contains(ts.ReadFile("stdout"), "\ngood ") {
		ts.Fatalf("list does not show the good skill:\n%s", ts.ReadFile("stdout"))
	}
	bounded(ts, append([]string{"explain", subject}, flags...), 0)
	if !strings.Contains(ts.ReadFile("stdout"), " is "+state+"\n") || code != "-" && !strings.Contains(ts.ReadFile("stdout"), code) {
		ts.Fatalf("explain tells of another state than %s by %s:\n%s", state, code, ts.ReadFile("stdout"))
	}
	bounded(ts, append([]string{"show", subject}, flags...), 0)
	bounded(ts, append([]string{"show", subject, "--json"}, flags...), 0)
	bounded(ts, []string{"validate", subject, root + "/good"}, 0, 1, 4)
	if !strings.Contains(ts.ReadFile("stdout"), "Valid skill: "+root+"/good\n") {
		ts.Fatalf("validate does not reach the good skill:\n%s", ts.ReadFile("stdout"))
	}
	if runtime.GOOS == "linux" { // script takes other flags on other systems
		var all []string
		for _, c := range [][]string{{"list", "--all"}, {"explain", subject}, {"show", subject}} {
			all = append(all, shellWords(append(append([]string{"metier"}, c...), flags...)))
		}
		all = append(all, shellWords([]string{"metier", "validate", subject}))
		ts.Check(ts.Exec("timeout", "30", "script", "-qec", strings.Join(all, "; ")+"; true", "/dev/null"))
		shown := strings.ReplaceAll(ts.ReadFile("stdout"), "\r\n", "\n")
		clean(ts, "a terminal", shown)
		if !strings.Contains(shown, "\ngood ") {
			ts.Fatalf("a terminal does not show the good skill:\n%s", shown)
		}
	}
}

// bounded runs metier, which must exit with one of the codes.
func bounded(ts *testscript.TestScript, args []string, exits ...int) {
	argv := append([]string{"metier"}, args...)
	if runtime.GOOS == "linux" {
		argv = append([]string{"timeout", "30"}, argv...)
	}
	got := 0
	if err := ts.Exec(argv[0], argv[1:]...); err != nil {
		got = -1
		if x, ok := err.(interface{ ExitCode() int }); ok {
			got = x.ExitCode()
		}
	}
	if !slices.Contains(exits, got) {
		ts.Fatalf("%q: exit code %d, want one of %v:\n%s", args, got, exits, ts.ReadFile("stderr"))
	}
	if !slices.Contains(args, "--json") {
		clean(ts, args[0], ts.ReadFile("stdout"))
	}
	clean(ts, args[0]+" on standard error", ts.ReadFile("stderr"))
}

// checkState reads the document of list --json.
func checkState(ts *testscript.TestScript, folder, state, code string) {
	var doc struct {
		Skills []struct {
			ID, Name, State string
			Diagnostics     []struct{ Severity, Code string }
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	good, found := false, false
	for _, s := range doc.Skills {
		good = good || s.Name == "good" && s.State == "loaded"
		if _, path, _ := strings.Cut(s.ID, ":"); path != folder {
			continue
		}
		found = true
		var codes []string
		for _, d := range s.Diagnostics {
			if d.Severity != "advice" || d.Code == code {
				codes = append(codes, d.Code)
			}
		}
		if s.State != state || code == "-" && len(codes) > 0 || code != "-" && !slices.Contains(codes, code) {
			ts.Fatalf("%q is %s with %q, want %s with %s", folder, s.State, codes, state, code)
		}
	}
	if !good {
		ts.Fatalf("the good skill is not loaded")
	}
	if !found {
		ts.Fatalf("%q is not listed", folder)
	}
}

// clean fails for text with terminal control, bidirectional control, or
// invisible characters.
func clean(ts *testscript.TestScript, where, text string) {
	if !utf8.ValidString(text) {
		ts.Fatalf("%s: bytes that are not UTF-8: %q", where, text)
	}
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			ts.Fatalf("%s: U+%04X in %q", where, r, text)
		}
	}
	if strings.HasPrefix(text, "FORGED") || strings.Contains(text, "\nFORGED") {
		ts.Fatalf("%s: a skill began a line of its own in %q", where, text)
	}
}

// shellWords quotes a command for sh.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// listens opens a socket at a path, until the script ends.
func listens(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen PATH")
	}
	// A socket path is limited to about a hundred bytes.
	dir, err := os.MkdirTemp("", "s")
	ts.Check(err)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	ts.Check(err)
	ts.Defer(func() { l.Close(); os.RemoveAll(dir) })
	ts.Check(os.Rename(filepath.Join(dir, "s"), ts.MkAbs(args[0])))
}
