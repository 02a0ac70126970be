package exectool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/promptescape"
	"metier/internal/termtext"
	"metier/policy"
	"metier/sandbox"
)

// Result is how a program ended, as it appears in JSON documents.
type Result struct {
	Status    string   `json:"status"`
	ExitCode  *int     `json:"exitCode"`
	Signal    string   `json:"signal"`
	Limit     string   `json:"limit"`
	Stdout    string   `json:"stdout"`
	Stderr    string   `json:"stderr"`
	Truncated bool     `json:"truncated"`
	Backend   string   `json:"backend"`
	Level     string   `json:"level"`
	Digest    string   `json:"digest"`
	Runtime   string   `json:"runtime"`
	Argv      []string `json:"argv"`
	// Quarantined lists what appeared at protected paths of the workspace.
	Quarantined []Quarantined `json:"quarantined,omitempty"`
	// Restored lists folders above protected paths whose permissions the program changed.
	Restored []string `json:"restored,omitempty"`
}

// Quarantined is something that appeared at a protected path, or took the place of what was there.
// To is where metier moved it, or "" if it was not moved.
type Quarantined struct {
	Path     string `json:"path"`
	To       string `json:"to,omitempty"`
	Replaced bool   `json:"replaced,omitempty"`
	Unsafe   string `json:"unsafe,omitempty"` // why git could run a program that a created repository names
	More     int    `json:"more,omitempty"`   // how many other created repositories were moved
}

// limitWords are the limits whose code is not a word of its own.
var limitWords = map[string]string{sandbox.LimitWall: "wall-time", sandbox.LimitCPU: "CPU-time"}

// Ended describes how the program ended, as a phrase to follow "the script".
func (r Result) Ended() string {
	switch {
	case len(r.Quarantined) > 0 && r.Quarantined[0].Unsafe != "": // found after its end
		return "failed: " + r.Quarantined[0].text()
	case len(r.Quarantined) > 0:
		return "was ended: " + r.Quarantined[0].text()
	case r.Limit == sandbox.LimitCancelled:
		return "was interrupted"
	case r.Limit == sandbox.LimitProgram:
		return "was ended: it started a program that a rule refuses"
	case r.Limit == sandbox.LimitProtectedPath:
		return "was stopped: it created something at a protected path"
	case r.Limit != "":
		return "was stopped because it reached the " + cmp.Or(limitWords[r.Limit], r.Limit) + " limit"
	case r.Signal != "":
		return "was ended by " + r.Signal
	case r.ExitCode == nil:
		return "did not run"
	}
	return fmt.Sprintf("exited with %d", *r.ExitCode)
}

// text describes what happened at a protected path, or to a new repository.
func (q Quarantined) text() string {
	s, moved := strconv.Quote(q.Path)+" is protected, and a program that runs in this workspace created or removed it", "it"
	switch {
	case q.Unsafe != "":
		s, moved = strconv.Quote(path.Dir(q.Path))+" is a new git repository that could make git run a program: "+q.Unsafe, "its "+path.Base(q.Path)
	case q.Replaced:
		s = strconv.Quote(q.Path) + " is protected, and was replaced or removed outside of the sandbox while a program ran, which could then reach what is there"
	}
	if q.To != "" {
		s += "; metier moved " + moved + " to " + strconv.Quote(q.To)
	}
	if q.More > 0 {
		s += fmt.Sprintf("; it did the same for %d more new git repositories", q.More)
	}
	return s
}

// reply returns the result of a call whose program ran. digest is that of the script's file, or ""
// for a command.
func reply(x *metier.ToolContext, e event.Execution, digest string, r sandbox.Result, argv []string, label policy.Label) (res metier.Result, err error) {
	res = metier.Text(outputText(x, r))
	res.Code, res.Label = endCode(r), label
	var moved []Quarantined
	for _, q := range r.Quarantined {
		moved = append(moved, Quarantined(q))
	}
	res.Detail, err = json.Marshal(Result{Status: e.Status, ExitCode: e.Exit, Signal: r.Signal, Limit: r.Limit, Stdout: string(r.Stdout), Stderr: string(r.Stderr),
		Truncated: r.StdoutTruncated || r.StderrTruncated, Backend: r.Backend, Level: r.Level.String(), Digest: digest, Runtime: e.Runtime, Argv: argv, Quarantined: moved, Restored: r.Restored})
	return res, err
}

// The codes of a program that ran but failed.
const (
	codeFailed  = "script_failed" // it exited with another code than 0, or a signal ended it
	codeLimit   = "script_limit"  // it ran into a limit
	codeStopped = "cancelled"     // the caller stopped it
)

func endCode(r sandbox.Result) string {
	switch {
	case r.Limit == sandbox.LimitCancelled:
		return codeStopped
	case r.Limit != "":
		return codeLimit
	case r.Signal != "" || r.Exit != 0:
		return codeFailed
	}
	return ""
}

// plainOutput returns what a script printed. If the script failed, how it ended and its standard
// error come first.
func plainOutput(r sandbox.Result) string {
	out, _, _ := shown(r.Stdout, r.StdoutTruncated)
	if endCode(r) == "" && len(r.Quarantined) == 0 {
		return restored(r) + out
	}
	errs, _, _ := shown(r.Stderr, r.StderrTruncated)
	return ending(r) + errs + out
}

// ending describes how a program ended.
func ending(r sandbox.Result) string {
	var b strings.Builder
	switch {
	case len(r.Quarantined) > 0:
		for _, q := range r.Quarantined {
			fmt.Fprintf(&b, "Ended: %s.\n", Quarantined(q).text())
		}
	case r.Limit == sandbox.LimitCancelled:
		b.WriteString("Interrupted before it ended.\n")
	case r.Limit == sandbox.LimitProgram: // the error names the program
	case r.Limit != "":
		fmt.Fprintf(&b, "Ended at a limit: %s.\n", r.Limit)
	case r.Signal != "":
		fmt.Fprintf(&b, "Ended by %s.\n", r.Signal)
	default:
		fmt.Fprintf(&b, "Exit code %d.\n", r.Exit)
		b.WriteString(missingModule(r.Stderr))
	}
	b.WriteString(restored(r))
	return b.String()
}

// restored reports folders that have their permissions again.
func restored(r sandbox.Result) string {
	if len(r.Restored) == 0 {
		return ""
	}
	return "Note: " + RestoredText(r.Restored) + ".\n"
}

// RestoredText reports folders whose permissions a program changed.
func RestoredText(dirs []string) string {
	quoted := make([]string, len(dirs))
	for i, d := range dirs {
		quoted[i] = strconv.Quote(d)
	}
	return "the program changed the permissions of " + strings.Join(quoted, ", ") + ", above protected files; they are restored"
}

// The error messages of Python, Node.js and Deno for a package that is not installed. A relative
// path is a file of the skill, and does not match.
var (
	pythonModule = regexp.MustCompile(`(?m)^(?:ModuleNotFoundError|ImportError): No module named '?([A-Za-z0-9_.]{1,100})'?\s*$`)
	nodeModule   = regexp.MustCompile(`Cannot find (?:module|package) '(@?[A-Za-z0-9][A-Za-z0-9_./-]{0,100})'`)
)

// missingModule returns the missing package that made a script fail, or "" if its standard error
// names none.
func missingModule(stderr []byte) string {
	kind, m := "Python package", pythonModule.FindSubmatch(stderr)
	if m == nil {
		kind, m = "Node.js module", nodeModule.FindSubmatch(stderr)
	}
	if m == nil {
		return ""
	}
	return fmt.Sprintf("The %s %s is not installed where scripts run, and the sandbox has no network to fetch it. Install it in a system folder.\n", kind, m[1])
}

// outputText returns what the model reads about a program: how it ended, followed by its output,
// with each stream enclosed in an element that it cannot close.
func outputText(x *metier.ToolContext, r sandbox.Result) string {
	var b strings.Builder
	b.WriteString(ending(r))
	out, n := stream("stdout", r.Stdout, r.StdoutTruncated)
	errs, m := stream("stderr", r.Stderr, r.StderrTruncated)
	b.WriteString(out + errs)
	if n += m; n > 0 {
		x.Record(event.Note{Code: "wrapper-tag-neutralized", On: x.Call().ID, N: n})
	}
	return b.String()
}

// The model reads the beginning and the end of a long stream. The record has everything that was
// kept.
const shownHead, shownTail = 32 << 10, 16 << 10

func stream(name string, data []byte, cut bool) (text string, neutralized int) {
	if len(data) == 0 && !cut {
		return "", 0
	}
	text, kept, cut := shown(data, cut)
	attributes := fmt.Sprintf(" stream=%q", name)
	if cut {
		attributes += fmt.Sprintf(` truncated="true" shown="%d"`, kept)
	}
	return promptescape.Element("program_output", attributes, text)
}

// shown returns the text of a stream for the model, the number of its bytes that are included, and
// whether some are left out.
func shown(data []byte, cut bool) (text string, kept int, less bool) {
	if len(data) <= shownHead+shownTail {
		return strings.ToValidUTF8(string(data), "\uFFFD"), len(data), cut
	}
	head, tail := data[:shownHead], data[len(data)-shownTail:]
	left := len(data) - len(head) - len(tail)
	return strings.ToValidUTF8(string(head), "\uFFFD") + fmt.Sprintf("\n[%d bytes left out]\n", left) + strings.ToValidUTF8(string(tail), "\uFFFD"), len(head) + len(tail), true
}

// short escapes a path chosen by the model and limits it to 1,024 bytes.
func short(p string) string {
	const most = 1024
	if len(p) > most {
		p = strings.ToValidUTF8(p[:most], "")
	}
	return termtext.Line(p)
}
