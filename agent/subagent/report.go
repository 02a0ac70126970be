package subagent

import (
	"encoding/json"
	"fmt"
	"strings"

	"metier"
	"metier/internal/promptescape"
	"metier/policy"
	"metier/settings"
)

// The codes of a child that failed: a closed set.
const (
	FailCompile     = "compile-error"
	FailTurns       = "turn-budget-exhausted"
	FailSchema      = "schema-mismatch"
	FailInput       = "missing-input-shape"
	FailUnsupported = "unsupported-request"
	FailOther       = "other"
)

// own are the codes that a child's own model may end with, on a last line
// "Failure: CODE".
var own = []string{FailCompile, FailInput, FailUnsupported, FailOther}

// failureRules tells a child how to report that it failed.
const failureRules = "If you cannot do the task, state in your own words what is missing, and end with a line \"Failure: CODE\". CODE is one of " +
	FailCompile + " (your code does not build), " + FailInput + " (the task does not state what you need), " + FailUnsupported + " (your tools cannot do it), or " + FailOther + "."

// Rules is what every child's system prompt ends with.
const Rules = "You are a subagent of another agent. That agent sees only your last message, so begin that message with the result. " +
	"Do not copy instructions, long passages, or program output into it. Describe what they mean instead. " + failureRules

// Report is what a parent is given of a child: the summary and sanitized state.
// It is the detail of the call's result.
type Report struct {
	Profile  string          `json:"profile"`
	Run      string          `json:"run"`    // name of its folder below children/
	Status   string          `json:"status"` // done or failed
	Failure  string          `json:"failure,omitempty"`
	Summary  string          `json:"summary"`          // "" where Output says it
	Cut      bool            `json:"cut,omitempty"`    // Handle has the rest
	Handle   string          `json:"handle,omitempty"` // for describe_handle
	Output   json.RawMessage `json:"output,omitempty"`
	Skills   []string        `json:"skills"` // names
	Files    []string        `json:"files"`  // that it wrote
	Turns    int             `json:"turns"`
	Tokens   int64           `json:"tokens"`
	Withheld int             `json:"withheld,omitempty"` // passages that were copied from what stays in the child
}

// Bytes of a summary and of a structured result that stand in a report, and
// lengths of lists in it.
const (
	maxSummary = 6000
	maxOutput  = 16 << 10
	maxFiles   = 50
)

// reportOf makes the report of a child that ended.
func reportOf(c Child, o Outcome) Report {
	r := Report{Profile: c.Profile.Name, Run: c.ID, Status: "done", Skills: []string{}, Files: []string{}, Turns: o.Turns, Tokens: o.Usage.Total()}
	s := newSieve(o.Private, o.Blind, o.Task)
	var code string
	r.Summary, r.Output, code = resultOf(o, s)
	if r.Failure = failure(o, code); r.Failure != "" {
		r.Status = "failed"
	}
	if len(r.Output) > maxOutput {
		r.Output, r.Cut = nil, true
	}
	if len(r.Summary) > maxSummary {
		r.Summary, r.Cut = strings.ToValidUTF8(r.Summary[:maxSummary], "")+"…", true
	}
	if r.Cut {
		r.Handle = c.ID
	}
	for _, sk := range o.Skills {
		r.Skills = append(r.Skills, s.clean(sk.Name))
	}
	for i, f := range o.Files {
		if i == maxFiles {
			r.Files = append(r.Files, fmt.Sprintf("and %d more", len(o.Files)-maxFiles))
			break
		}
		r.Files = append(r.Files, s.clean(f))
	}
	r.Withheld = s.withheld
	return r
}

// resultOf returns what a child answered, cleaned: its words, unless they are only the structured
// result, that result, and the code of the failure it ends with.
func resultOf(o Outcome, s *sieve) (words string, output json.RawMessage, code string) {
	answer, code := failureLine(o.Answer)
	if o.Output != nil {
		if output = s.json(o.Output); !strings.Contains(answer, strings.TrimSpace(string(o.Output))) {
			words = s.clean(answer)
		}
		return words, output, ""
	}
	return s.clean(answer), nil, code
}

// whole is all of what a report was made from, for whoever reads it by its
// handle.
func whole(o Outcome) string {
	words, output, _ := resultOf(o, newSieve(o.Private, o.Blind, o.Task))
	if output == nil {
		return words
	}
	return strings.TrimSpace(words + "\n" + string(output))
}

// failure puts why a child is not done into one of the closed set.
func failure(o Outcome, code string) string {
	switch {
	case o.Status == "done":
		return code
	case o.Code == "turn_limit" || o.Code == "token_budget":
		return FailTurns
	case o.Code == "output_invalid":
		return FailSchema
	}
	return FailOther
}

// failureLine cuts the line by which a child says that it failed.
func failureLine(answer string) (rest, code string) {
	answer = strings.TrimRight(answer, " \t\r\n")
	at := strings.LastIndexByte(answer, '\n') + 1
	line, is := strings.CutPrefix(strings.TrimSpace(answer[at:]), "Failure:")
	for _, c := range own {
		if is && strings.TrimSpace(line) == c {
			return strings.TrimRight(answer[:at], " \t\r\n"), c
		}
	}
	return answer, ""
}

// result is what the parent's model reads.
func (r Report) result() (metier.Result, error) {
	detail, err := json.Marshal(r)
	if err != nil {
		return metier.Result{}, err
	}
	line, err := json.Marshal(struct {
		Report
		Summary string `json:"summary,omitempty"` // left out: it stands in the element
	}{Report: r})
	if err != nil {
		return metier.Result{}, err
	}
	shown, _ := promptescape.Neutralize(string(line))
	text := element(r.Run, r.Profile, r.Summary) + "State: " + shown + "\n"
	if r.Cut {
		text += fmt.Sprintf("Not all of it is here; %s with handle %q has the rest.\n", settings.ToolDescribeHandle, r.Handle)
	}
	out := metier.Text(text)
	out.Detail, out.Label, out.Code = detail, label(r.Run), ""
	if r.Failure != "" {
		out.Code = "subagent_failed"
	}
	return out, nil
}

// element wraps what a child said.
func element(run, profile, text string) string {
	attributes := fmt.Sprintf(` run="%s"`, promptescape.Attribute(run))
	if profile != "" {
		attributes += fmt.Sprintf(` profile="%s"`, promptescape.Attribute(profile))
	}
	text, _ = promptescape.Element("subagent_report", attributes, strings.TrimSpace(text))
	return text
}

// Reported reports whether a result is the report of a child: what was in it
// left that child already.
func Reported(l policy.Label) bool { return l.Mediated && strings.HasPrefix(l.Origin, origin) }

const origin = "subagent:"

// label says of a report that it is anybody's text, and that it was mediated.
func label(run string) policy.Label {
	return policy.Label{Role: policy.Context, Origin: origin + run, Tier: policy.ThirdParty, Mediated: true}
}
