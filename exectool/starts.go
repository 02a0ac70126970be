package exectool

import (
	"errors"
	"slices"
	"strings"

	"metier"
	"metier/internal/shell"
	"metier/internal/termtext"
	"metier/policy"
	"metier/sandbox"
)

// watched checks the programs that a command starts. Rules have been checked against the text of the
// command before. This check does not depend on how bash reads the text.
type watched struct {
	check   func(policy.Started) policy.Decision
	program string // that was refused, or ""
	why     policy.Decision
}

// watchStarts returns nil if no rule could refuse a program. Questions alone do not make the host
// unusable: where programs are not watched, they depend on the text.
func watchStarts(x *metier.ToolContext, host sandbox.Report) *watched {
	check := x.Starts()
	if check == nil || slices.Contains(host.Notes, sandbox.NoteUnwatched) && check(policy.Started{}).Allowed() {
		return nil
	}
	return &watched{check: check}
}

var errProgram = errors.New("a rule refuses the program")

// exec is sandbox.Job.Exec.
func (w *watched) exec(x sandbox.Exec) (passes bool, err error) {
	lines := described(x, x.Lines)
	var interpreters [][]string
	for _, l := range x.Interpreters {
		interpreters = append(interpreters, described(x, [][]string{l})...)
	}
	if n := len(x.Loader); n > 0 && len(x.Lines) > 0 && !shell.Loads(x.Loader[n-1]) {
		for _, name := range x.Loader {
			interpreters = append(interpreters, described(x, [][]string{append([]string{name}, x.Lines[0][1:]...)})...)
		}
	}
	if d := w.check(policy.Started{Lines: lines, Interpreters: interpreters, Direct: x.Direct}); !d.Allowed() {
		w.program, w.why = "a program whose arguments cannot be read", d
		if len(x.Lines) > 0 {
			w.program = named(x.Lines)
		}
		return false, errProgram
	}
	return len(x.Interpreters) == 0 && slices.ContainsFunc(x.Lines, shell.Passes), nil // a script decides itself
}

// described returns the command lines of a program, and of those that it contains, loads, or runs as a
// script, by their arguments and by the files that these lead to.
func described(x sandbox.Exec, names [][]string) [][]string {
	lines := shell.Lines(names)
	for _, l := range lines[len(names):] {
		if x.Files == nil || slices.ContainsFunc(names, func(n []string) bool { return len(n) > 0 && n[0] == l[0] }) {
			continue
		}
		files, err := x.Files(l[0])
		if err != nil {
			lines = append(lines, []string{policy.Dynamic})
		}
		for _, f := range files {
			lines = append(lines, append([]string{f}, l[1:]...))
		}
	}
	if x.Cut {
		for i, l := range lines {
			lines[i] = append(slices.Clone(l), policy.Dynamic)
		}
	}
	return lines
}

// named names a program in an error: by the path that was called and, if that differs, by its file.
func named(lines [][]string) string {
	var names []string
	end := func(name string) string { return "/" + strings.TrimPrefix(name, "./") }
	for _, l := range lines {
		if !slices.ContainsFunc(names, func(n string) bool {
			return strings.HasSuffix(n, end(l[0])) || strings.HasSuffix(l[0], end(n)) || n == l[0]
		}) {
			names = append(names, l[0])
		}
	}
	for i, n := range names {
		names[i] = termtext.Word(short(n))
	}
	if len(names) == 1 {
		return names[0]
	}
	return names[0] + " (" + strings.Join(names[1:], ", ") + ")"
}

func (w *watched) refused() bool { return w != nil && w.program != "" }

// result turns the result of a command that was ended into a refusal.
func (w *watched) result(x *metier.ToolContext, res metier.Result) metier.Result {
	refusal := metier.Failure(x.Refused(w.program, w.why))
	res.Parts[0].Text = refusal.Parts[0].Text + "\n" + res.Parts[0].Text
	res.Code = refusal.Code
	return res
}
