package subagent

import (
	"encoding/json"
	"fmt"
	"strings"

	"metier"
	"metier/internal/wrap"
	"metier/policy"
)

// The codes of a child that failed: a closed set (contracts §2.1).
const (
	FailCompile     = "compile-error"
	FailTurns       = "turn-budget-exhausted"
	FailSchema      = "schema-mismatch"
	FailInput       = "missing-input-shape"
	FailUnsupported = "unsupported-request"
	FailOther       = "other"
)

// said are the codes that a child's own model may end with, on a last line
// "Failure: CODE".
var said = []string{FailCompile, FailInput, FailUnsupported, FailOther}

// failureRules tells a child how to say that it failed.
const failureRules = "When you cannot do the task, say in your own words what is missing, and end with a line \"Failure: CODE\", CODE being one of " +
	FailCompile + " (what you wrote does not build), " + FailInput + " (the task does not say what you need), " + FailUnsupported + " (your tools cannot do it) or " + FailOther + "."

// Rules is what every child's system prompt ends with.
const Rules = "You are a helper of another agent. It sees nothing of your work but your last message: begin that with the result. " +
	"Do not copy instructions, long passages or program output into it; say what they mean. " + failureRules

// Report is what a parent is given of a child: the summary and sanitized state
// . It is the detail of the call's result.
type Report struct {
	Profile  string          `json:"profile"`
	Run      string          `json:"run"`    // name of its folder below children/
	Status   string          `json:"status"` // done or failed
	Failure  string          `json:"failure,omitempty"`
	Summary  string          `json:"summary"`
	Cut      bool            `json:"cut,omitempty"` // Handle has the rest
	Handle   string          `json:"handle,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Skills   []string        `json:"skills"` // names
	Files    []string        `json:"files"`  // that it wrote
	Turns    int             `json:"turns"`
	Tokens   int64           `json:"tokens"`
	Withheld int             `json:"withheld,omitempty"` // passages that were copied from what stays in the child
}

// Bytes of a summary that stand in a result, and of lists in it.
const (
	maxSummary = 6000
	maxFiles   = 50
)

// reportOf makes the report of a child that ended.
func reportOf(c Child, o Outcome) Report {
	r := Report{Profile: c.Profile.Name, Run: c.ID, Status: "done", Skills: []string{}, Files: []string{}, Turns: o.Turns, Tokens: o.Usage.Input + o.Usage.Output}
	answer, own := failureLine(o.Answer)
	r.Summary, r.Withheld = sanitize(answer, o.Private, o.Task)
	var n int
	r.Output, n = sanitizeJSON(o.Output, o.Private, o.Task)
	r.Withheld += n
	if r.Failure = failure(o, own); r.Failure != "" {
		r.Status = "failed"
	}
	if len(r.Summary) > maxSummary {
		r.Summary, r.Cut, r.Handle = strings.ToValidUTF8(r.Summary[:maxSummary], "")+"…", true, c.ID
	}
	for _, s := range o.Skills {
		r.Skills = append(r.Skills, s.Name)
	}
	for _, f := range o.Files {
		if f, n = sanitize(f, o.Private, o.Task); len(r.Files) < maxFiles {
			r.Files = append(r.Files, f)
		}
		r.Withheld += n
	}
	if len(o.Files) > maxFiles {
		r.Files = append(r.Files, fmt.Sprintf("and %d more", len(o.Files)-maxFiles))
	}
	return r
}

// failure puts why a child is not done into one of the closed set.
func failure(o Outcome, own string) string {
	switch {
	case o.Status == "done":
		return own
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
	for _, c := range said {
		if is && strings.TrimSpace(line) == c {
			return answer[:at], c
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
	state := r
	state.Summary = ""
	line, err := json.Marshal(struct {
		Report
		Summary string `json:"summary,omitempty"`
	}{Report: state})
	if err != nil {
		return metier.Result{}, err
	}
	shown, _ := wrap.Neutralize(string(line))
	text := element(r.Run, r.Profile, r.Summary) + "State: " + shown + "\n"
	if r.Cut {
		text += fmt.Sprintf("The summary was cut; %s with handle %q has all of it.\n", ToolHandle, r.Handle)
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
	text, _ = wrap.Neutralize(text)
	attr := ""
	if profile != "" {
		attr = fmt.Sprintf(` profile="%s"`, wrap.Attribute(profile))
	}
	return fmt.Sprintf("<subagent_report run=\"%s\"%s>\n%s\n</subagent_report>\n", wrap.Attribute(run), attr, strings.TrimSpace(text))
}

// label says of a report that it is anybody's text, and that it was mediated.
func label(run string) policy.Label {
	return policy.Label{Role: policy.Context, Origin: "subagent:" + run, Tier: policy.ThirdParty, Mediated: true}
}
