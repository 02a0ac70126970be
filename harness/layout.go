package harness

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/settings"
	"metier/skillmd"
)

// Names of files that mean something.
const (
	File          = "HARNESS.md"
	skillFile     = "SKILL.md"
	leafFile      = ".harnessleaf"
	detectorsFile = ".leaf-detectors"

	skillsDir, skillsFile = "skills", "SKILLS.md"
	refsDir, refsFile     = "references", "REFERENCES.md"
)

// Layout is how a harness is laid out: the setting harness_layout.
type Layout = settings.Layout

// The layouts. Auto looks which of the others a folder has.
const (
	Auto = settings.LayoutAuto
	V1   = settings.LayoutV1
	V2   = settings.LayoutV2
)

// Options of Load and New. Zero values mean the defaults given here.
type Options struct {
	Layout Layout // default auto
	// Summary is what a group without its summary file is; default warn.
	Summary settings.GroupSummary
	Links   bool // links that stay in the folder are followed; others never are

	// RefuseHardLinks leaves out files with more than one name: the other name
	// may be outside. For harnesses where others can write.
	RefuseHardLinks bool

	// AnySkill makes a skill of every folder with a SKILL.md, whatever the
	// detectors say: for people who look at a harness. It chooses nothing that
	// an agent is given.
	AnySkill bool

	MaxDepth   int   // folders below the harness; default 32
	MaxEntries int   // names looked at in all folders; default 20,000
	MaxBytes   int64 // read of all files to find names and descriptions; default 64 MiB
}

// The largest HARNESS.md, and the largest .leaf-detectors, how many of its lines count and how long a type is.
const (
	maxBody      = 1 << 20
	maxDetectors = 64 << 10
	maxLines     = 256
	maxType      = 64 // bytes of a type
)

func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Layout == "" {
		out.Layout = Auto
	}
	if out.Summary == "" {
		out.Summary = settings.GroupSummaryWarn
	}
	if out.MaxDepth <= 0 {
		out.MaxDepth = 32
	}
	if out.MaxEntries <= 0 {
		out.MaxEntries = 20_000
	}
	if out.MaxBytes <= 0 {
		out.MaxBytes = 64 << 20
	}
	return out
}

// ParseLayout reads a layout's name: v1, v2 or auto; "" is auto.
func ParseLayout(name string) (Layout, error) {
	switch l := Layout(name); l {
	case "":
		return Auto, nil
	case V1, V2, Auto:
		return l, nil
	}
	return "", fmt.Errorf("%q is no layout: give v1, v2 or auto", name)
}

// missing is the severity of a group without its summary file.
func (o Options) missing() skillmd.Severity {
	if o.Summary == settings.GroupSummaryError {
		return skillmd.Error
	}
	return skillmd.Warning
}

// undescribed is the severity of a Markdown document without a description: the
// reference validator of v1 calls it recommended and fails, that of v2 warns.
func (h *Harness) undescribed() skillmd.Severity {
	if h.v2() {
		return skillmd.Warning
	}
	return skillmd.Error
}

// v2 reports whether the harness has the second layout.
func (h *Harness) v2() bool { return h.Layout == V2 }

// choose settles which layout a harness is read in. It is what the setting says;
// auto is v2 where .leaf-detectors is at the top or another folder than skills
// and references, and else v1 unless a .harnessleaf turns up (see reader.group).
func (r *reader) choose(top []confine.Entry) (auto bool) {
	r.h.Layout = r.opt.Layout
	if r.opt.Layout != Auto {
		return false
	}
	r.h.Layout = V1
	for _, e := range top {
		hidden := strings.HasPrefix(e.Name, ".")
		if e.Name == detectorsFile || e.Type.IsDir() && !hidden && e.Name != skillsDir && e.Name != refsDir {
			r.h.Layout = V2
		}
	}
	return r.h.Layout == V1
}

// CodeUndetected is the code of the finding that folders with a SKILL.md are
// not skills.
const CodeUndetected = "harness-skill-undetected"

// noteLayout reports which skills the layout adds or leaves out. Tools that
// know v2 alone find skills only through .leaf-detectors.
func (r *reader) noteLayout() {
	if len(r.undetected) > 0 {
		slices.Sort(r.undetected)
		r.note(skillmd.Warning, CodeUndetected, ".", "layout v2 finds skills only through %s; to make skills of %s, add the line skill=SKILL.md", detectorsFile, listed(r.undetected))
	}
	if r.auto && len(r.h.Skills()) > 0 {
		r.note(skillmd.Advice, "harness-layout-assumed", ".", "no file tells the layout, so v1 is assumed; tools that know only v2 find no skills here unless %s has the line skill=SKILL.md", detectorsFile)
	}
}

// Detector is a line of .leaf-detectors: a folder that has File is a leaf of
// the type.
type Detector struct{ Type, File string }

// Detectors reads .leaf-detectors: lines of type=relative/path, blank ones and
// those that begin with # left out. What is neither is named in the findings,
// with its line, and has no effect.
func Detectors(text []byte) (list []Detector, findings []skillmd.Diagnostic) {
	bad := func(line int, format string, a ...any) {
		findings = append(findings, skillmd.Diagnostic{Severity: skillmd.Warning, Code: "harness-detector", Path: detectorsFile, Line: line, Detail: fmt.Sprintf(format, a...)})
	}
	lines := strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(list)+len(findings) >= maxLines {
			bad(i+1, "only the first %d lines count", maxLines)
			break
		}
		typ, file, ok := strings.Cut(line, "=")
		typ, file = strings.TrimSpace(typ), strings.TrimSpace(file)
		clean, err := confine.Clean(file)
		switch {
		case !ok || typ == "":
			bad(i+1, "the line is not type=relative/path")
		case len(typ) > maxType || !utf8.ValidString(typ):
			bad(i+1, "the type is longer than %d bytes, or no UTF-8", maxType)
		case err != nil:
			bad(i+1, "the path of the type %s is not one inside a leaf", termtext.Quote(typ))
		default:
			list = append(list, Detector{typ, clean})
		}
	}
	return list, findings
}

// summary is the name of the summary file of groups below a folder at the top.
func (h *Harness) summary(top string) string {
	switch {
	case h.v2():
		return strings.ToUpper(top) + ".md"
	case top == refsDir:
		return refsFile
	}
	return skillsFile
}

// top is the first part of a path.
func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// skip reports names that are no content: in v2 all hidden ones, in v1, whose
// rule is "all files", what version control keeps.
func (h *Harness) skip(name string) bool {
	if h.v2() {
		return strings.HasPrefix(name, ".")
	}
	return name == ".git"
}

// described reports whether a document may say what it is: Markdown alone may.
func described(name string) bool { return path.Ext(name) == ".md" }
