package repocheck

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/build/constraint"
	"go/token"
	"go/version"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"metier/internal/testenv"
)

// Texts that belong to one machine or to how the work was done, not into a
// repository. They are written in pieces, so that this file does not break its
// own rule.
var foreign = regexp.MustCompile(strings.Join([]string{
	`/wo` + `rk/(main|shared|steering|\.library)\b`, `/tmp/` + `m/`, `\.\./\.lib` + `rary`, `/far` + `m/`,
	`proxy\.go` + `lang\.org`, `sum\.go` + `lang\.org`, `deb\.deb` + `ian\.org`, `registry\.npm` + `js\.org`,
	`before-` + `stop`, `(developer|CI) sess` + `ion`,
}, "|"))

// A mark is postponed work, which belongs in an issue.
var mark = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// Words finds machine paths, registry hosts and postponed work. Our skills and
// test data that quote such words on purpose are not scanned.
func (t *Tree) Words() []Finding {
	var out []Finding
	for _, p := range t.Paths {
		if slices.Contains(strings.Split(p, "/"), "testdata") || path.Base(p) == "go.sum" {
			continue
		}
		for i, line := range bytes.Split(t.data[p], []byte("\n")) {
			if m := foreign.Find(line); m != nil {
				out = append(out, Finding{p, i + 1, strconv.Quote(string(m)) + " belongs to one machine or to how the work was done"})
			}
			if m := mark.Find(line); m != nil {
				out = append(out, Finding{p, i + 1, string(m) + ": do it, or file it and leave it out"})
			}
		}
	}
	return out
}

// bareCommand matches a command that needs an argument, without it.
var bareCommand = regexp.MustCompile(`metier (audit (verify|show|replay)|runs (show|answer|approve|deny|export)|harness (validate|show|read|prompt|init)|` +
	`subagents (show|check)|mcp (install|inspect)|explain|show|enable|trust|fix)(['"]|$)`)

// Hints finds texts with a command that fails if it is copied, because it lacks its argument. Help
// texts, in which a command is a name, are raw strings.
func (t *Tree) Hints() []Finding {
	var out []Finding
	for _, f := range t.Go(func(p string) bool { return IsGo(p) && !IsTest(p) }) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			s, ok := n.(*ast.BasicLit)
			if !ok || s.Kind != token.STRING || strings.HasPrefix(s.Value, "`") {
				return true
			}
			if m := bareCommand.FindString(strings.Trim(s.Value, `"`)); m != "" {
				out = append(out, Finding{f.Path, f.Line(s.Pos()), strconv.Quote(m) + ": add the argument that the command needs"})
			}
			return true
		})
	}
	return byPlace(out)
}

// Modules finds go.mod files that require too old a Go or replace a module. A
// module nested in this one may replace it by the folder above.
func (t *Tree) Modules() []Finding {
	var out []Finding
	for _, p := range t.Paths {
		if path.Base(p) != "go.mod" {
			continue
		}
		for i, line := range strings.Split(string(t.data[p]), "\n") {
			f := strings.Fields(line)
			switch {
			case len(f) == 2 && f[0] == "go" && version.Compare("go"+f[1], "go1.26.5") < 0:
				out = append(out, Finding{p, i + 1, "go " + f[1] + ": 1.26.5 or later has the fixes we rely on"})
			case strings.Contains(line, "=>") && (p == "go.mod" || !nestedReplace.MatchString(line)):
				out = append(out, Finding{p, i + 1, "a replaced module is not what others get"})
			}
		}
	}
	return out
}

var nestedReplace = regexp.MustCompile(`^(replace)?\s*\S+ => (\.\./)*\.\.$`)

// systems are the names that tie a file to one operating system.
var systems = []string{"aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "ios", "linux", "netbsd", "openbsd", "plan9", "solaris", "unix", "windows"}

// ofSystems are the folders that are about operating systems.
var ofSystems = []string{"bench/subject", "internal/confine", "internal/peeruser", "internal/typeahead", "sandbox"}

// Tags finds files tied to an operating system outside the folders that are
// about it. Everything else has to work, and be tested, everywhere.
func (t *Tree) Tags() []Finding {
	var out []Finding
	for _, f := range t.Go(anyGo) {
		if slices.ContainsFunc(ofSystems, func(dir string) bool { return strings.HasPrefix(f.Dir+"/", dir+"/") }) {
			continue
		}
		why := ": only " + strings.Join(ofSystems, ", ") + " know operating systems; ask runtime.GOOS or move it there"
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.Path), ".go"), "_test")
		if parts := strings.Split(stem, "_"); len(parts) > 1 && slices.Contains(systems, parts[len(parts)-1]) {
			out = append(out, Finding{f.Path, 0, "the file name is a build tag" + why})
		}
		for _, g := range f.Comments {
			for _, c := range g.List {
				if constraint.IsGoBuild(c.Text) && tied(c.Text) {
					out = append(out, Finding{f.Path, f.Line(c.Pos()), c.Text + why})
				}
			}
		}
	}
	return out
}

func tied(line string) bool {
	expr, err := constraint.Parse(line)
	if err != nil {
		return true
	}
	found := false
	expr.Eval(func(tag string) bool {
		found = found || slices.Contains(systems, tag)
		return false
	})
	// Eval short-circuits && and ||: evaluate again with every tag true.
	expr.Eval(func(tag string) bool {
		found = found || slices.Contains(systems, tag)
		return true
	})
	return found
}

// Waits finds tests that sleep or skip on their own.
func (t *Tree) Waits() []Finding {
	var out []Finding
	for _, f := range t.Go(IsTest) {
		if f.Dir == "internal/testenv" {
			continue
		}
		for _, at := range f.Uses("time", "Sleep") {
			out = append(out, Finding{f.Path, f.Line(at.Pos()), "time.Sleep in a test: wait for what happens (a channel, a file, synctest), not for a time"})
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == f.Local(testenv.ModulePath+"/internal/testenv") {
				return true
			}
			out = append(out, Finding{f.Path, f.Line(call.Pos()), s.Sel.Name + ": use testenv.Skip(t, reason), which CI can forbid"})
			return true
		})
	}
	for _, p := range t.Paths {
		if strings.HasSuffix(p, ".txtar") {
			out = append(out, scriptWaits(p, string(t.data[p]))...)
		}
	}
	return byPlace(out)
}

// scriptSkip is a skip of a testscript, which needs a condition and a reason.
var (
	scriptSkip  = regexp.MustCompile(`^(\[.*\] *)?skip\b`)
	scriptGood  = regexp.MustCompile(`^\[.+\] *skip '.+'$`)
	scriptSleep = regexp.MustCompile(`^(\[.*\] *)?[!?]? *exec +sleep\b`)
)

func scriptWaits(p, text string) []Finding {
	var out []Finding
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --") {
			break
		}
		line = strings.TrimSpace(line)
		switch {
		case scriptSkip.MatchString(line) && !scriptGood.MatchString(line):
			out = append(out, Finding{p, i + 1, "a skip needs a condition and a reason: [!linux] skip 'why'"})
		case scriptSleep.MatchString(line):
			out = append(out, Finding{p, i + 1, "sleep in a test: wait for what happens"})
		}
	}
	return out
}

// byPlace sorts findings for stable messages.
func byPlace(fs []Finding) []Finding {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return fs
}
