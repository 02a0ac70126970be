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

// Names of files with a meaning in a harness.
const (
	File          = "HARNESS.md"
	skillFile     = "SKILL.md"
	leafFile      = ".harnessleaf"
	detectorsFile = ".leaf-detectors"

	skillsDir, skillsFile = "skills", "SKILLS.md"
	refsDir, refsFile     = "references", "REFERENCES.md"
)

// Layout is the layout of a harness: the setting harness_layout.
type Layout = settings.Layout

// The layouts. Auto detects the layout of a folder.
const (
	Auto = settings.LayoutAuto
	V1   = settings.LayoutV1
	V2   = settings.LayoutV2
)

// Options configures [Load] and [New]. Zero values select the defaults below.
type Options struct {
	Layout Layout // default auto
	// Summary is the severity of a missing summary file; default warn.
	Summary settings.GroupSummary
	Links   bool // follow links that stay in the folder

	// RefuseHardLinks ignores files with several hard links, because another
	// one may be outside. Use it for harnesses that other users can write.
	RefuseHardLinks bool

	// AnySkill treats every folder with a SKILL.md as a skill, regardless of the
	// detectors. It is for inspection, and not for harnesses of agents.
	AnySkill bool

	MaxDepth   int   // folders below the harness; default 32
	MaxEntries int   // names read in all folders; default 20,000
	MaxBytes   int64 // bytes read from all files for names and descriptions; default 64 MiB
}

// Limits of HARNESS.md and .leaf-detectors: sizes in bytes, number of lines, and length of a type.
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

// ParseLayout parses the name of a layout: v1, v2, or auto. "" is auto.
func ParseLayout(name string) (Layout, error) {
	switch l := Layout(name); l {
	case "":
		return Auto, nil
	case V1, V2, Auto:
		return l, nil
	}
	return "", fmt.Errorf("%q is not a layout: use v1, v2, or auto", name)
}

// missing returns the severity of a missing summary file.
func (o Options) missing() skillmd.Severity {
	if o.Summary == settings.GroupSummaryError {
		return skillmd.Error
	}
	return skillmd.Warning
}

// undescribed returns the severity of a Markdown document without a description:
// the reference validator of v1 fails, and that of v2 warns.
func (h *Harness) undescribed() skillmd.Severity {
	if h.v2() {
		return skillmd.Warning
	}
	return skillmd.Error
}

// v2 reports whether the harness has the second layout.
func (h *Harness) v2() bool { return h.Layout == V2 }

// choose selects the layout by the setting. For auto, it is v2 if the top level
// has .leaf-detectors or a folder other than skills and references. Otherwise it
// is v1, unless the reader finds a .harnessleaf (see reader.folder).
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

// CodeUndetected is the code of the finding that folders with a SKILL.md are not
// skills in layout v2.
const CodeUndetected = "harness-skill-undetected"

// noteLayout reports skills that the layout adds or omits. Tools that support
// only v2 find skills only through .leaf-detectors.
func (r *reader) noteLayout() {
	if len(r.undetected) > 0 {
		slices.Sort(r.undetected)
		r.note(skillmd.Warning, CodeUndetected, ".", "layout v2 detects skills only through %s; add the line skill=SKILL.md to it to load %s as skills", detectorsFile, listed(r.undetected))
	}
	if r.auto && len(r.h.Skills()) > 0 {
		r.note(skillmd.Advice, "harness-layout-assumed", ".", "no file indicates the layout, so v1 is assumed; tools that support only v2 find no skills here unless %s has the line skill=SKILL.md", detectorsFile)
	}
}

// Detector is a line of .leaf-detectors: a folder that contains File is a leaf
// of this type.
type Detector struct{ Type, File string }

// Detectors parses .leaf-detectors: lines of type=relative/path. It skips blank
// lines and lines that begin with #. Invalid lines are reported in findings, with
// their line numbers, and have no effect.
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
			bad(i+1, "only the first %d lines are used", maxLines)
			break
		}
		typ, file, ok := strings.Cut(line, "=")
		typ, file = strings.TrimSpace(typ), strings.TrimSpace(file)
		clean, err := confine.Clean(file)
		switch {
		case !ok || typ == "":
			bad(i+1, "the line is not type=relative/path")
		case len(typ) > maxType || !utf8.ValidString(typ):
			bad(i+1, "the type is longer than %d bytes, or not valid UTF-8", maxType)
		case err != nil:
			bad(i+1, "the path of type %s must be relative and stay inside the leaf", termtext.Quote(typ))
		default:
			list = append(list, Detector{typ, clean})
		}
	}
	return list, findings
}

// summary returns the name of the summary file of groups below a top folder.
func (h *Harness) summary(top string) string {
	switch {
	case h.v2():
		return strings.ToUpper(top) + ".md"
	case top == refsDir:
		return refsFile
	}
	return skillsFile
}

// top returns the first part of a path.
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

// skip reports whether a name is not content: all hidden names in v2, and .git and
// .metier in v1, whose rule is "all files".
func (h *Harness) skip(name string) bool {
	if h.v2() {
		return strings.HasPrefix(name, ".")
	}
	return confine.Private(name)
}

// described reports whether a document can have a description: only Markdown can.
func described(name string) bool { return path.Ext(name) == ".md" }
