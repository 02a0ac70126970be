package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"metier/agent"
	"metier/engine"
	"metier/policy"
)

// watcher shows progress on standard error: formatted for a terminal, plain lines otherwise, and
// nothing with --json.
type watcher struct {
	mu     sync.Mutex // children tell beside their parent
	a      *app
	start  time.Time
	turn   int
	inText bool
	said   strings.Builder // what the model wrote in this turn, as shown
	quiet  bool
	tokens int64
	cost   *int64
	calls  map[string]string // id → tool, as the model named it
	held   []string          // lines that wait until a question is answered
	asks   int               // questions at the terminal
	clean  func(string) string
	live   bool // the run is under way: notices are lines of its progress
}

func (a *app) watcher() *watcher {
	return &watcher{a: a, start: a.now(), quiet: a.json, calls: map[string]string{}, clean: a.engine().Clean}
}

// line prints one line, prefixed with turn and time.
func (w *watcher) line(format string, args ...any) {
	if w.quiet {
		return
	}
	w.endText()
	line := fmt.Sprintf("[%s turn %d] %s\n", elapsed(w.a.now().Sub(w.start)), w.turn, strings.TrimRight(oneLine(w.clean(fmt.Sprintf(format, args...))), " "))
	if w.asks > 0 {
		w.held = append(w.held, line)
		return
	}
	fmt.Fprint(w.a.Err, line)
}

// hold delays lines while the user is asked a question, because other subagents keep running.
func (w *watcher) hold() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asks--; w.asks == 0 {
			fmt.Fprint(w.a.Err, strings.Join(w.held, ""))
			w.held = nil
		}
	}
}

// text shows what the model writes, indented so that it cannot be mistaken for metier's own lines.
func (w *watcher) text(s string) {
	for line := range strings.Lines(printable(s)) {
		if !w.inText {
			fmt.Fprint(w.a.Err, "  ")
		}
		fmt.Fprint(w.a.Err, line)
		w.inText = !strings.HasSuffix(line, "\n")
	}
}

// showed reports whether the answer has already been shown on the terminal.
func (w *watcher) showed(answer string) bool {
	return w.a.outTerminal() && strings.TrimSpace(w.said.String()) == strings.TrimSpace(answer)
}

func (w *watcher) endText() {
	if w.inText {
		fmt.Fprintln(w.a.Err)
		w.inText = false
	}
}

// notice shows a notice. Once the run has started, it is a progress line.
func (w *watcher) notice(n engine.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.live || w.quiet { // with --json, warnings are printed all the same
		w.a.notice(n)
		return
	}
	w.line("%s", noticeLine(n))
}

// child shows the actions of a child of the run, on lines with its name. Call arguments are shown
// only on a terminal.
func (w *watcher) child(name string) func(agent.Progress) {
	name += ": "
	return func(p agent.Progress) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch p.Kind {
		case agent.TurnStart:
			w.line("%sasking the model", name)
		case agent.ToolCallRunning:
			given := ""
			if w.a.Terminal {
				given = brief(p.Args)
			}
			w.line("%s%s %s", name, p.Tool, given)
		case agent.ToolResult:
			if p.Code != "" {
				w.line("%s%s: %s", name, p.Tool, p.Code)
			}
		case agent.ModelRetry:
			w.line("%smodel: %s; trying again in %s", name, p.Code, elapsed(p.Wait))
		case agent.RunEnded:
			w.line("%s%s", name, strings.TrimSpace(p.Text+" "+p.Code))
		}
	}
}

// observe receives all progress of the run.
func (w *watcher) observe(p agent.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn = max(w.turn, p.Turn)
	switch p.Kind {
	case agent.TurnStart:
		w.turn, w.live = p.Turn, true
		w.said.Reset()
		w.line("asking the model")
	case agent.TextDelta:
		if w.quiet || !w.a.Terminal {
			return // the answer is printed whole at the end
		}
		w.said.WriteString(p.Text)
		w.text(w.clean(p.Text))
	case agent.ToolCallRunning:
		w.calls[p.Call] = p.Tool
		w.line("%s %s", p.Tool, brief(p.Args))
	case agent.ToolResult:
		if p.Code != "" {
			w.line("%s: %s", cmp.Or(w.calls[p.Call], p.Tool), p.Code) // the record says unknown for a tool that is not there
		}
		delete(w.calls, p.Call)
	case agent.SkillActivated:
		w.line("skill %s is active", p.Skill)
	case agent.ModelRetry:
		w.line("model: %s; trying again in %s", p.Code, elapsed(p.Wait))
	case agent.OutputInvalid:
		w.line("the answer does not match the output schema")
	case agent.Compacting:
		w.line("summarizing older messages")
	case agent.TokenUsage:
		w.tokens, w.cost = p.Usage.Input+p.Usage.Output, p.Usage.CostMicroUSD
		w.line("%d tokens so far%s", w.tokens, describeCost(w.cost))
	case agent.ApprovalRequested:
		asked, _ := policy.SplitQuestion(p.Text)
		w.line("needs an answer: %s", asked)
	}
}

// brief formats a call's arguments on one line, with long values cut.
func brief(raw json.RawMessage) string {
	var args map[string]any
	if json.Unmarshal(raw, &args) != nil {
		return ""
	}
	var out []string
	for _, k := range []string{"name", "skill", "path", "file_path", "pattern", "glob", "profile", "task"} {
		if v, ok := args[k].(string); ok {
			if len(v) > 80 {
				v = strings.ToValidUTF8(v[:80], "") + "…"
			}
			out = append(out, v)
		}
	}
	return strings.Join(out, " ")
}

// describeCost formats a run's cost, or reports that the price is unknown.
func describeCost(micro *int64) string {
	if micro == nil {
		return ""
	}
	return fmt.Sprintf(", $%.4f", float64(*micro)/1e6)
}

func elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
