package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"metier/agent"
	"metier/policy"
)

// asks reports whether somebody can answer: the input is a terminal.
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

// replies are the answers a question can have.
var replies = []reply{
	{[]string{"y", "yes"}, "once", true, policy.ScopeOnce},
	{[]string{"s", "session"}, "for this session", true, policy.ScopeSession},
	{[]string{"a", "always"}, "always, while its files are these", true, policy.ScopeAlways},
	{[]string{"n", "no", ""}, "no", false, policy.ScopeOnce},
}

// mostTries is how often a person is asked again whose answer is none.
const mostTries = 3

// ask brings a question to the person at the terminal, one at a time. Nothing but
// what is typed there is an answer, and what is no answer is a no.
func (a *app) ask(ctx context.Context, who string, q agent.Question, args json.RawMessage) (policy.Answer, error) {
	a.asking.Lock()
	defer a.asking.Unlock()
	if ctx.Err() != nil {
		return policy.Answer{}, ctx.Err() // it was answered while another was asked
	}
	fmt.Fprintf(a.Err, "\nMay %s do this?\n", oneLine(who))
	a.showQuestion(a.Err, "  ", q.Text, args)
	var offered []reply
	var menu []string
	for _, c := range replies {
		if !c.allow || slices.Contains(q.Scopes, c.scope) {
			offered = append(offered, c)
			menu = append(menu, "["+c.keys[0]+"] "+c.text)
		}
	}
	for range mostTries {
		line, err := a.typed(ctx, strings.Join(menu, "  ")+": ")
		if err != nil {
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

// showQuestion prints what is asked, what an answer covers, and what the call
// was given.
func (a *app) showQuestion(w io.Writer, indent, text string, args json.RawMessage) {
	asked, rows := policy.Shown(text, args)
	for _, line := range asked {
		fmt.Fprintf(w, "%s%s\n", indent, oneLine(line))
	}
	t := table{}
	for _, r := range rows {
		t.add(r[0], cutDigest(r[1], a.Terminal || a.outTerminal()))
	}
	t.print(w, indent+"  ")
}
