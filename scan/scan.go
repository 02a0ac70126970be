// Package scan searches the files of a skill for signs of an attack, without running them and
// without a network: prompt injection, exfiltration, access to credentials, destructive commands,
// obfuscation, hidden characters, archives, remote downloads, and skills that do more than they
// declare. Markdown and shell code are parsed. Python, JavaScript, and PowerShell are read
// statement by statement.
//
// A scan finds known forms. It cannot prove that a skill is harmless. [Coverage] reports how much of
// a skill was read, and [Report.Blast] what its code can do if it runs.
package scan

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// Severity is the damage if a finding is what it looks like.
type Severity string

// The severities, in ascending order.
const (
	Low      Severity = "low"
	Medium   Severity = "medium"
	High     Severity = "high"
	Critical Severity = "critical"
)

// Confidence is how likely it is that a finding is what it looks like, or that a verdict is right.
type Confidence string

// The confidences, in ascending order.
const (
	Unsure  Confidence = "low"
	Likely  Confidence = "medium"
	Certain Confidence = "high"
)

// Verdict is the result of a scan.
type Verdict string

// The verdicts, in ascending order.
const (
	Clean      Verdict = "clean"      // no finding of medium severity and confidence
	Suspicious Verdict = "suspicious" // a person should read the findings before anybody uses the skill
	Dangerous  Verdict = "dangerous"  // a severe finding that a legitimate skill has no reason for
)

// Verdicts returns all verdicts in ascending order.
func Verdicts() []Verdict { return []Verdict{Clean, Suspicious, Dangerous} }

// AtLeast reports whether a verdict is the given one or a worse one.
func (v Verdict) AtLeast(least Verdict) bool {
	return slices.Index(Verdicts(), v) >= slices.Index(Verdicts(), least)
}

// Finding is a place that matches a rule.
type Finding struct {
	Rule       string     `json:"rule"`
	Class      Class      `json:"class"`
	Title      string     `json:"title"`
	Severity   Severity   `json:"severity"`
	Confidence Confidence `json:"confidence"`
	File       string     `json:"file"`   // relative to the skill's folder, with slashes
	Line       int        `json:"line"`   // from 1; 0: the whole file
	Column     int        `json:"column"` // in characters, from 1; 0: unknown
	Excerpt    string     `json:"excerpt"`
	Fix        string     `json:"fix"`
	ID         string     `json:"id"` // the same for the same text in another line; baselines have it
}

// Decides reports whether a finding makes a skill at least suspicious.
func (f Finding) Decides() bool {
	return rank(f.Severity) >= rank(Medium) && f.Confidence != Unsure
}

// Report is the result of scanning a skill.
type Report struct {
	Name       string     `json:"name"` // in the frontmatter
	Verdict    Verdict    `json:"verdict"`
	Confidence Confidence `json:"confidence"` // in the verdict
	Blast      []Ability  `json:"blast_radius"`
	// Hosts are those of the addresses in the text of the files, in order, except those of this machine
	// and of local networks. UnlistedHosts counts those that a limit leaves out, up to 10,000 in all.
	Hosts         []string  `json:"hosts"`
	UnlistedHosts int       `json:"unlisted_hosts"`
	Coverage      Coverage  `json:"coverage"`
	Findings      []Finding `json:"findings"` // the most severe first
	Accepted      int       `json:"accepted"` // findings that a baseline removed
	Rules         string    `json:"rules"`    // version of the rules
}

// Options are the settings of a scan. Nil means defaults.
type Options struct {
	// Names are the names of other skills. A skill whose name looks like one of them gets a finding.
	Names []string
	// MaxFiles, MaxFile, and MaxBytes limit the files that are read, the bytes of one, and the bytes
	// of all. 0 means 4096 files, 2 MiB, and 64 MiB. Coverage lists what a limit leaves out.
	MaxFiles int
	MaxFile  int64
	MaxBytes int64
}

const (
	maxFiles    = 4096
	maxFile     = 2 << 20
	maxBytes    = 64 << 20
	maxFindings = 200 // of a skill
	maxOfRule   = 20  // of a rule, in a file
)

// Skill scans the files of a skill's folder. It does not follow links. It returns an error if the
// folder cannot be read, or if the context ends. Files that cannot be read are listed in the report's
// coverage.
func Skill(ctx context.Context, files fs.FS, o *Options) (Report, error) {
	if o == nil {
		o = &Options{}
	}
	s := &scanner{ctx: ctx, files: files, limits: limitsOf(o), counts: map[string]int{}, done: map[content]same{}, hosts: map[string]bool{}, coverage: Coverage{Skipped: []Skip{}}}
	s.started = s.startedBy()
	if err := s.walk(); err != nil {
		return Report{}, err
	}
	for i := range s.found {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		s.file(&s.found[i])
	}
	s.scope(o.Names)
	return s.report(), nil
}

// Text scans one text as if it were the file of a skill.
func Text(ctx context.Context, name, text string) (Report, error) {
	if !fs.ValidPath(name) || strings.Contains(name, "/") {
		return Report{}, errors.New("scan: the name of a text must be that of a file")
	}
	return Skill(ctx, single{name, text}, nil)
}
