package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/engine"
	"metier/event"
	"metier/internal/confine"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/model/provider"
	"metier/policy"
	"metier/run"
)

// result is the output of a finished run.
type result struct {
	Run    string          `json:"run"`
	Phase  string          `json:"phase,omitempty"`
	Status string          `json:"status"`
	Code   string          `json:"code,omitempty"`
	Reason string          `json:"reason,omitempty"` // what the model's provider said
	Answer string          `json:"answer"`
	Output json.RawMessage `json:"output,omitempty"`
	Turns  int             `json:"turns"`
	Tokens int64           `json:"tokens"`
	Cost   *float64        `json:"costUSD,omitempty"`
	Asks   []ask           `json:"asks,omitempty"`
	Denied denied          `json:"denied"` // with those of subagents
	// Catalog counts the skills shown to the model.
	Catalog run.CatalogReport `json:"catalog"`
	Notices []engine.Notice   `json:"notices"`
	Head    string            `json:"head"`
	Dir     string            `json:"dir"`

	shown     bool // the terminal has the answer already
	batch     bool // every question was answered with no
	maxTokens int64
	workspace string
	missing   error // later phases that nothing starts
}

// denied are the denied calls of a run.
type denied struct {
	Count   int                   `json:"count"`
	Calls   []event.Denial        `json:"calls"`
	Scripts []engine.DeniedScript `json:"scripts,omitempty"` // that the operator can allow
}

type ask struct {
	Call     string `json:"call"`
	ID       string `json:"id"`
	Question string `json:"question"`
}

func outcomeResult(o engine.Outcome) result {
	r := result{Run: o.Run, Phase: o.Phase, Status: o.Status, Code: o.Code, Reason: o.Reason, Answer: o.Answer, Output: o.Output, Turns: o.Turns,
		Tokens: o.Usage.Input + o.Usage.Output, Dir: o.Dir, workspace: o.Workspace, Catalog: o.Catalog, Denied: denied{deniedCalls(o.Denied), o.Denied, o.Scripts}, Notices: append([]engine.Notice{}, o.Notices...), batch: o.Batch, maxTokens: o.MaxTokens, missing: o.PhasesMissing()}
	if o.Head.Seq > 0 {
		r.Head = fmt.Sprintf("%d:%s", o.Head.Seq, o.Head.Hash)
	}
	if o.Usage.CostMicroUSD != nil {
		usd := float64(*o.Usage.CostMicroUSD) / 1e6
		r.Cost = &usd
	}
	for _, q := range o.Asks {
		r.Asks = append(r.Asks, ask{Call: q.Call, ID: q.ID, Question: q.Text})
	}
	return r
}

// finishRun prints the answers and the paths of the records, and converts the last status into an
// exit code. work is the error that kept the last run from finishing. Completed work is reported
// anyway.
func (a *app) finishRun(f runFlags, rs []result, work error) error {
	file := f.resultJSON
	if len(rs) == 0 {
		return work
	}
	if file != "" {
		b, err := json.MarshalIndent(oneOrMany(rs), "", "  ")
		if err != nil {
			return err
		}
		if err := a.engine().WriteOutput(file, append(b, '\n'), rs[0].workspace); err != nil {
			work = errors.Join(work, resultFault(a.env.Path(file), err))
		}
	}
	err := a.put(oneOrMany(rs), func() {
		for _, r := range rs {
			a.showResult(r, f)
		}
	})
	if err = cmp.Or(err, work); err != nil {
		return err
	}
	if err := a.statusError(rs[len(rs)-1]); err != nil {
		return err
	}
	return cmp.Or(rs[len(rs)-1].missing, a.failOn(f.failOn, rs))
}

// checkResult fails if the file for the result cannot be written, or is one that the run reads.
func (a *app) checkResult(file string, requests ...fileRequest) error {
	if file == "" {
		return nil
	}
	out, err := os.Stat(a.env.Path(file))
	var workspaces []string
	for _, q := range requests {
		if dir, err := a.engine().WorkspaceDir(q.Workspace); err == nil {
			workspaces = append(workspaces, dir)
		}
		for _, in := range slices.Concat(q.Sources, q.Policies, q.Servers, []string{provider.ScriptOf(q.Model)}) {
			read, missing := os.Stat(a.env.Path(in))
			if in != "" && err == nil && missing == nil && out.Mode().IsRegular() && os.SameFile(out, read) {
				return resultFault(a.env.Path(file), errors.New("the run reads this file"))
			}
		}
	}
	if err := a.checkOutput(file, workspaces...); err != nil {
		return resultFault(a.env.Path(file), err)
	}
	return nil
}

func resultFault(file string, err error) error {
	return &metier.Error{Op: "result", Path: file, Kind: metier.Unavailable, Code: "result_unwritable", Hint: "specify another file with --result-json", Err: err}
}

// failOn returns the error that --fail-on requires for completed runs, if any.
func (a *app) failOn(conditions []string, rs []result) error {
	for _, r := range rs {
		if slices.Contains(conditions, failOnDenied) && r.Denied.Count > 0 {
			return &problem{exit: exitDenied, code: "calls_denied", err: fmt.Errorf("run %s is done, but calls were denied: %s", r.Run, deniedLine(r.Denied.Calls)),
				hint: "see 'metier runs show " + a.named(r) + "'; allow what the task needs with --allow-tool or a policy file, or change the rule that denied the call"}
		}
	}
	return nil
}

func oneOrMany(rs []result) any {
	if len(rs) == 1 {
		return rs[0]
	}
	return map[string]any{"runs": rs}
}

func (a *app) showResult(r result, f runFlags) {
	if r.Output != nil {
		fmt.Fprintf(a.Out, "%s\n", harmless(r.Output))
	} else if r.Answer != "" && !r.shown {
		fmt.Fprintf(a.Out, "%s\n", strings.TrimRight(printable(r.Answer), "\n"))
	}
	cost := ""
	if r.Cost != nil {
		cost = fmt.Sprintf(", $%.4f", *r.Cost)
	}
	over := ""
	if r.maxTokens > 0 && r.Tokens > r.maxTokens {
		over = fmt.Sprintf(" (the limit of %d is checked before each model call)", r.maxTokens)
	}
	fmt.Fprintf(a.Err, "run %s: %s, %s, %d tokens%s%s\n", r.Run, statusText(r), plural.Of(r.Turns, "turn"), r.Tokens, over, cost)
	if s := deniedLine(r.Denied.Calls); s != "" {
		fmt.Fprintf(a.Err, "denied: %s; see 'metier runs show %s'\n", s, a.named(r))
		if r.batch && slices.ContainsFunc(r.Denied.Calls, func(d event.Denial) bool { return d.Code == policy.CodeRefused }) {
			fmt.Fprintln(a.Err, "  hint: a batch run answers no to every question; approve scripts with --allow-skill-script, use a policy file, or leave questions open with --on-approval wait")
		}
		if s := allowScripts(r, f); s != "" {
			fmt.Fprintln(a.Err, "  hint: "+s)
		}
	}
	fmt.Fprintf(a.Err, "record: %s\n", oneLine(filepath.Join(r.Dir, "events.jsonl")))
	if r.Head != "" {
		fmt.Fprintf(a.Err, "head: %s\n", r.Head)
	}
	if a.env.StateDir() == "" {
		fmt.Fprintln(a.Err, "note: no head of this record is stored outside the workspace: set HOME or XDG_STATE_HOME [heads_missing]")
	}
	for _, q := range r.Asks {
		asked, _ := policy.SplitQuestion(q.Question)
		fmt.Fprintf(a.Err, "waiting for an answer: %s\n", oneLine(asked))
	}
}

func statusText(r result) string {
	if r.Code != "" {
		return r.Status + " (" + r.Code + ")"
	}
	return r.Status
}

// statusError returns the error for a run that is not done.
func (a *app) statusError(r result) error {
	what := map[string]string{"parked": "is waiting for an answer", "denied": "was denied", "cancelled": "was canceled", "interrupted": "was interrupted"}
	err := fmt.Errorf("run %s %s", r.Run, cmp.Or(what[r.Status], r.Status))
	switch {
	case r.Reason != "":
		err = fmt.Errorf("%w: %s", err, strings.Replace(r.Reason, r.Code+": ", "", 1)) // the code follows
	case r.Code == "token_budget" && r.maxTokens > 0:
		err = fmt.Errorf("%w: it used %s of %s tokens", err, plural.Thousands(r.Tokens), plural.Thousands(r.maxTokens))
	case r.Code != "" && r.Status != "parked":
		err = fmt.Errorf("%w (%s)", err, r.Code)
	}
	p := &problem{code: cmp.Or(r.Code, "run_"+r.Status), err: err, hint: a.hintOf(r)}
	switch r.Status {
	case "done":
		return nil
	case "parked":
		p.exit = exitWaiting
	case "denied":
		p.exit = exitDenied
	case "cancelled", "interrupted":
		p.exit = exitInterrupted
	default:
		p.exit = exitFailed
	}
	return p
}

// again returns the command that continues a run, as typed in the current folder.
func (a *app) again(r result) string { return "metier run --resume " + a.named(r) }

// named returns how to refer to a run in commands typed in the current folder.
func (a *app) named(r result) string {
	what := r.Run
	if filepath.Dir(confine.RealPathOfExisting(r.Dir)) != filepath.Join(confine.RealPathOfExisting(a.Dir), ".metier", "runs") {
		what = r.Dir
	}
	return termtext.Word(what)
}

// resumable adds to an error of the record or of the disk how to resume the run once the cause is
// fixed.
func (a *app) resumable(id, dir string, err error) error {
	if err == nil || metier.KindOf(err) != metier.Unavailable {
		return err
	}
	p := *problemOf(err)
	if p.hint == "" && p.code == "disk_full" {
		p.hint = "free some space"
	}
	if p.hint != "" {
		p.hint += "; then "
	}
	p.hint += "continue with: " + a.again(result{Run: id, Dir: dir})
	return &p
}

// hintOf returns the hint for a run that is not done.
func (a *app) hintOf(r result) string {
	again, show := a.again(r), "metier runs show "+a.named(r)
	switch r.Code {
	case "model_auth", "model_forbidden":
		return "check the provider's key; then continue with: " + again
	case "model_not_found":
		return "check the model's name; continue with: " + again + " --model provider:name"
	case "model_bad_request", "model_refused":
		return "the provider rejected this conversation; try another provider: " + again + " --model provider:name"
	case "model_context_overflow":
		return "continue with a model that has a larger context window: " + again + " --model provider:name; or start a new run with fewer skills and files"
	case "model_rate_limited", "model_overloaded", "model_server", "model_cut":
		return "the provider failed several times; wait, then continue with: " + again
	case "model_bad_reply":
		return "check the base URL, such as OPENAI_BASE_URL, and the model; then continue with: " + again
	case "model_unreachable":
		if strings.HasPrefix(r.Reason, "ollama: ") {
			return "start Ollama with: ollama serve; then continue with: " + again
		}
		return "check the network, the proxy, and the base URL, such as OPENAI_BASE_URL; then continue with: " + again
	case "script_ended", "script_turn_failed":
		return "the recorded turns do not match this run; fix the script, or continue with a model: " + again + " --model provider:name"
	case "turn_limit":
		return "allow more turns: " + again + " --max-turns N"
	case "token_budget":
		return "allow more tokens: " + again + " --max-tokens N"
	case "loop_detected":
		return "the model repeated the same call; see '" + show + "', or try another model: " + again + " --model provider:name"
	case "output_invalid":
		return "no answer matched the schema; see '" + show + "', or try again with: " + again
	case "reply_cut":
		return "the answer exceeded the model's output limit; ask for less, or continue with: " + again
	}
	switch r.Status {
	case "parked":
		return "show the question with: metier runs answer " + a.named(r) + "; then approve or deny it, and continue with: " + again
	case "interrupted":
		return "continue with: " + again
	}
	return "see '" + show + "'"
}
