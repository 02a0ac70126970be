package policy

import (
	"fmt"
	"strings"
)

// Cell is what one mode says of calls of one effect, without and with a direct
// command of the turn.
type Cell struct {
	Mode          Mode
	Effect        Effect
	Without, With Decision
}

// Table is judgeMode, cell by cell: modes laxest first, effects mildest first.
func Table() []Cell {
	var out []Cell
	for _, m := range []Mode{Disabled, Observe, EnforceExplicit, EnforceStrict} {
		for _, e := range []Effect{Read, Write, SideEffect} {
			out = append(out, Cell{m, e, judgeMode(m, e, false), judgeMode(m, e, true)})
		}
	}
	return out
}

// Reason is one of the 20 reason codes of contracts §2.1: what it means, and the
// way out, "" where nothing is refused.
type Reason struct{ Code, Meaning, Fix string }

const fixEvidence = "give the task as a direct command (`--prompt-slot-role direct-command`, which is the default), or choose another mode (`--enforcement-mode`)"

// Reasons are those codes: those that any mode gives, in the order of the table,
// then the others.
func Reasons() []Reason {
	var out []Reason
	seen := map[string]bool{}
	for _, c := range Table() {
		for _, d := range []Decision{c.Without, c.With} {
			if !seen[d.Code] {
				seen[d.Code] = true
				out = append(out, modeReason(c.Mode, d))
			}
		}
	}
	return append(out,
		Reason{CodeToolNotAllowed, "the operator did not allow the tool", "name it with `--allow-tool`, or under `tools` in a policy file"},
		Reason{CodeInvalidCall, "the call could not be read: there is no such tool, or its arguments are not what it takes", "the model is told what is wrong, and may call again"},
		Reason{CodeProfile, "a subagent of this profile may start, and the mode allows the call", ""},
		Reason{CodeProfileDenied, "the operator did not allow subagents of this profile", "allow the profile, or delegate to one that is allowed"})
}

func modeReason(m Mode, d Decision) Reason {
	r := Reason{Code: d.Code}
	switch {
	case m == Disabled:
		r.Meaning = "the mode asks for no evidence"
	case strings.HasSuffix(d.Code, "_read"):
		r.Meaning = "it only reads, which this mode lets pass"
	case d.Outcome == Allow:
		r.Meaning = "a direct command of the turn is there"
	case d.Outcome == Warn:
		r.Meaning, r.Fix = "no direct command of the turn is there; the call goes on with this warning", fixEvidence
	default:
		r.Meaning, r.Fix = "no direct command of the turn is there; the call is refused", fixEvidence
	}
	return r
}

// verdictWords are outcomes as policy-trace.json has them.
var verdictWords = map[Outcome]string{Allow: "allowed", Warn: "warned", Deny: "denied"}

// TableMarkdown and ReasonsMarkdown are the generated parts of
// docs/ENFORCEMENT.md.
func TableMarkdown() string {
	var b strings.Builder
	b.WriteString("| mode | effect | without a direct command | with one |\n|---|---|---|---|\n")
	word := func(d Decision) string { return verdictWords[d.Outcome] + " `" + d.Code + "`" }
	for _, c := range Table() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Mode, c.Effect, word(c.Without), word(c.With))
	}
	return b.String()
}

// ReasonsMarkdown lists the codes with meaning and way out.
func ReasonsMarkdown() string {
	var b strings.Builder
	b.WriteString("| code | means | way out |\n|---|---|---|\n")
	for _, r := range Reasons() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Code, r.Meaning, r.Fix)
	}
	return b.String()
}
