package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"metier/agent"
	"metier/policy"
)

// asks reports whether the input is a terminal, so that a person can answer.
func (a *app) asks() bool {
	f, ok := a.In.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && a.Terminal && !a.json
}

// reply is one way to answer a question.
type reply struct {
	keys  []string // what may be typed, the shown one first
	text  string
	allow bool
	scope string
}

// replies are the possible answers to a question.
var replies = []reply{
	{[]string{"y", "yes"}, "yes, once", true, policy.ScopeOnce},
	{[]string{"s", "session"}, "yes, for this run", true, policy.ScopeSession},
	{[]string{"a", "always"}, "yes, always, until its files change", true, policy.ScopeAlways},
	{[]string{"n", "no", ""}, "no (default)", false, policy.ScopeOnce},
}

// mostTries is how often a question is repeated after an invalid answer.
const mostTries = 3

// ask asks the user at the terminal a question, one at a time. Only what is typed there counts as
// an answer, and an invalid answer means no.
func (a *app) ask(ctx context.Context, who string, q agent.Question, args json.RawMessage) (policy.Answer, error) {
	a.asking.Lock()
	defer a.asking.Unlock()
	if ctx.Err() != nil {
		return policy.Answer{}, ctx.Err() // it was answered while another was asked
	}
	fmt.Fprintf(a.Err, "\nMay %s do this?\n", oneLine(who))
	in, _ := a.In.(*os.File)
	a.showQuestion(a.Err, "  ", q.Text, args, policy.Layout{Width: max(a.columnsAt(in), 40), Lines: 8, More: " (Ctrl-C, then: metier runs answer latest)"})
	var offered []reply
	var menu []string
	for _, c := range replies {
		if !c.allow || slices.Contains(q.Scopes, c.scope) {
			offered = append(offered, c)
			menu = append(menu, "["+c.keys[0]+"] "+c.text)
		}
	}
	for try := range mostTries {
		if try > 0 {
			fmt.Fprintln(a.Err, "type one of the letters in brackets")
		}
		line, err := a.typed(ctx, strings.Join(menu, "  ")+": ")
		if errors.Is(err, io.EOF) && line == "" {
			fmt.Fprintln(a.Err, "\nnote: the input ended, so the answer is no")
			return policy.Answer{Question: q.ID, Scope: policy.ScopeOnce, By: a.engine().Principal()}, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return policy.Answer{}, err
		}
		key := strings.ToLower(strings.TrimSpace(line))
		for _, c := range offered {
			if slices.Contains(c.keys, key) {
				return policy.Answer{Question: q.ID, Allow: c.allow, Scope: c.scope, By: a.engine().Principal()}, nil
			}
		}
	}
	fmt.Fprintln(a.Err, "not one of the choices, so the answer is no")
	return policy.Answer{Question: q.ID, Scope: policy.ScopeOnce, By: a.engine().Principal()}, nil
}

// showQuestion prints the question, the arguments of the call, and what an answer covers.
func (a *app) showQuestion(w io.Writer, indent, text string, args json.RawMessage, l policy.Layout) {
	if l.Width > 0 {
		l.Width -= len(indent)
	}
	for _, line := range policy.Shown(text, args, l) {
		fmt.Fprintf(w, "%s%s\n", indent, oneLine(line))
	}
}
