package repocheck

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Proof is a test that names a requirement row.
type Proof struct {
	Row  string
	Path string // file of the test
	Test string // name of the function; "" for a script
}

var (
	rowShape = regexp.MustCompile(`^[A-E]-\d{3}$`)
	reqLine  = regexp.MustCompile(`^(//|#)\s*req:`)
)

// maxRows is how many rows one test may prove.
const maxRows = 3

// Proofs collects the requirement rows that tests name, in a comment line
// directly above the function ("// req: A-055, A-056") or among the comments at
// the start of a testscript ("# req: A-055"). Lines anywhere else are findings,
// and so are more than three rows, a repeated row, and rows that known does not
// contain. If known is nil, the rows are not available and only their shape is
// checked.
func (t *Tree) Proofs(known map[string]bool) ([]Proof, []Finding) {
	var proofs []Proof
	var out []Finding
	add := func(p, test string, line int, rows string) {
		named, why := parseRows(rows, known)
		for _, w := range why {
			out = append(out, Finding{p, line, w})
		}
		for _, r := range named {
			proofs = append(proofs, Proof{r, p, test})
		}
	}
	for _, f := range t.Go(anyGo) {
		out = append(out, f.proofs(add)...)
	}
	for _, p := range t.Paths {
		if path.Ext(p) == ".txtar" {
			out = append(out, scriptProofs(p, t.data[p], add)...)
		}
	}
	slices.SortFunc(proofs, func(a, b Proof) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Test, b.Test))
	})
	return proofs, byPlace(out)
}

// proofs finds a Go file's req lines and returns those in their proper place.
func (f GoFile) proofs(add func(p, test string, line int, rows string)) []Finding {
	right := map[*ast.Comment]string{} // the comment directly above a test → its name
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Doc == nil || fn.Recv != nil || !strings.HasSuffix(f.Path, "_test.go") {
			continue
		}
		if name := fn.Name.Name; strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
			right[fn.Doc.List[len(fn.Doc.List)-1]] = name
		}
	}
	var out []Finding
	for _, g := range f.Comments {
		for _, c := range g.List {
			m := reqLine.FindString(c.Text)
			if m == "" {
				continue
			}
			test, ok := right[c]
			if !ok {
				out = append(out, Finding{f.Path, f.Line(c.Pos()), "a req line stands directly above one Test or Fuzz function, once"})
				continue
			}
			add(f.Path, test, f.Line(c.Pos()), strings.TrimPrefix(c.Text, m))
		}
	}
	return out
}

// scriptProofs does the same for a testscript: its head is the comment lines
// before the first command.
func scriptProofs(p string, b []byte, add func(p, test string, line int, rows string)) []Finding {
	var out []Finding
	head, seen := true, false
	for i, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --") {
			break // the files of the archive
		}
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "#") {
			head = false
		}
		m := reqLine.FindString(line)
		switch {
		case m == "":
		case !head || seen:
			out = append(out, Finding{p, i + 1, "a req line stands among the comments that begin a script, once"})
		default:
			seen = true
			add(p, "", i+1, strings.TrimPrefix(line, m))
		}
	}
	return out
}

func parseRows(list string, known map[string]bool) (rows, why []string) {
	for r := range strings.SplitSeq(list, ",") {
		r = strings.TrimSpace(r)
		switch {
		case !rowShape.MatchString(r):
			why = append(why, strconv.Quote(r)+" is no row, want something like A-055")
		case known != nil && !known[r]:
			why = append(why, "there is no row "+r)
		case slices.Contains(rows, r):
			why = append(why, r+" is named twice")
		default:
			rows = append(rows, r)
		}
	}
	if len(rows) > maxRows {
		why = append(why, fmt.Sprintf("%d rows, at most %d: a test that proves more proves none", len(rows), maxRows))
	}
	return rows, why
}

// ParseRanges reads a list of rows as their owners write it: groups by letter,
// "A-001, 002, 010..013; B-001".
func ParseRanges(list string) ([]string, error) {
	var rows []string
	for group := range strings.SplitSeq(list, ";") {
		letter, rest, ok := strings.Cut(strings.TrimSpace(group), "-")
		if !ok || len(letter) != 1 {
			return nil, fmt.Errorf("%q does not begin with a row like A-001", group)
		}
		for item := range strings.SplitSeq(rest, ",") {
			from, to, isRange := strings.Cut(strings.TrimSpace(item), "..")
			if !isRange {
				to = from
			}
			lo, err1 := strconv.Atoi(from)
			hi, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil || lo > hi {
				return nil, fmt.Errorf("%q is no row and no range of rows", item)
			}
			for n := lo; n <= hi; n++ {
				rows = append(rows, fmt.Sprintf("%s-%03d", letter, n))
			}
		}
	}
	return rows, nil
}

// tableRow is a row of a requirements table.
var tableRow = regexp.MustCompile(`(?m)^\| ([A-E]-\d{3}) \|`)

// Rows lists the row ids in the tables of a requirements document.
func Rows(doc []byte) []string {
	var rows []string
	for _, m := range tableRow.FindAllSubmatch(doc, -1) {
		rows = append(rows, string(m[1]))
	}
	return rows
}

// Requirements writes docs/internal/requirements.md. steps maps a step's name to the
// rows that its tests have to name.
func Requirements(proofs []Proof, steps map[string][]string) []byte {
	by := map[string][]string{}
	for _, p := range proofs {
		at := "`" + p.Path + "`"
		if p.Test != "" {
			at = "`" + p.Path + ":" + p.Test + "`"
		}
		by[p.Row] = append(by[p.Row], at)
	}
	var b bytes.Buffer
	b.WriteString("# Requirements and their tests\n\n" +
		"Generated by `make docs` from the `req:` comments above the tests; do not edit. Each test in a row asserts the\n" +
		"row's acceptance check, and fails if the behavior is broken.\n\n")
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		var missing []string
		for _, r := range steps[step] {
			if by[r] == nil {
				missing = append(missing, r)
			}
		}
		fmt.Fprintf(&b, "Step %s: %d of %d rows have tests.", step, len(steps[step])-len(missing), len(steps[step]))
		if len(missing) > 0 {
			fmt.Fprintf(&b, " Not yet: %s.", strings.Join(missing, ", "))
		}
		b.WriteString("\n\n")
	}
	b.WriteString("| row | tests |\n|---|---|\n")
	for _, row := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "| %s | %s |\n", row, strings.Join(slices.Compact(by[row]), "<br>"))
	}
	return b.Bytes()
}
