package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"metier/engine"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/model"
	"metier/run"
	"metier/sandbox"
)

// showRun prints the page of one run.
func (a *app) showRun(dir string, r run.Report) {
	status := r.Status
	if r.Code != "" {
		status += " (" + r.Code + ")"
	}
	if r.Status == run.StatusAnswered {
		status += "; continue with: " + a.again(result{Run: r.ID, Dir: dir})
	}
	t := table{}
	t.add("run", r.ID)
	t.add("status", status)
	t.add("model", cmp.Or(r.Model, "no model was called"))
	t.add("started", cmp.Or(localTime(r.StartedAt), "unknown")+", took "+elapsed(time.Duration(r.DurationMS)*time.Millisecond))
	t.add("turns", fmt.Sprintf("%d, %s", r.Turns, plural.Of(r.Calls, "tool call")))
	t.add("tokens", fmt.Sprintf("%s (%s in, %s out)", plural.Thousands(r.Tokens.Total), plural.Thousands(r.Tokens.Input), plural.Thousands(r.Tokens.Output)))
	t.add("cost", cmp.Or(dollars(r.CostUSD, r.CostPartial), "price unknown"))
	if s := deniedLine(r.Denied); s != "" {
		t.add("denied", s)
	}
	if r.Catalog != nil && engine.Shortened(*r.Catalog) != "" {
		t.add("catalog", engine.Shortened(*r.Catalog))
	}
	t.add("folder", dir)
	t.add("head", fmt.Sprintf("%d:%s", r.Head.Seq, r.Head.Hash))
	t.print(a.Out, "")
	a.section("skills", a.skillRows(r))
	a.section("reads", a.readRows(r))
	a.section("scripts", scriptRows(r))
	a.section("denied or asked", refusalRows(r))
	a.section("files written", a.fileRows(r))
	a.section("answers", answerRows(r))
	a.showPendings(dir, r)
	rows := childRows(r)
	a.section("subagents", rows)
	if len(rows) > 0 {
		fmt.Fprintf(a.Out, "  show one with: metier runs show %s\n", termtext.Word(filepath.Join(dir, "children", rows[0][0])))
	}
	a.section("problems", problemRows(r.Problems))
	a.section("notices", noticeRows(r.Notices))
	if s := run.Text(r.Output); s != "null" && s != "" {
		fmt.Fprintf(a.Out, "\noutput\n%s\n", printable(s))
	}
	if s := run.Text(r.Answer); s != "null" && s != "" {
		fmt.Fprintf(a.Out, "\nanswer\n%s\n", strings.TrimRight(printable(s), "\n"))
	}
}

// section prints a table under its name, or nothing if the table is empty.
func (a *app) section(name string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(a.Out, "\n%s\n", name)
	t := table{}
	for _, row := range rows {
		t.add(row...)
	}
	t.print(a.Out, "  ")
}

func (a *app) skillRows(r run.Report) (rows [][]string) {
	before := map[string]string{} // digests by skill
	for _, s := range r.Activations {
		changed := ""
		switch {
		case before[s.SkillID] == s.Digest:
			changed = "loaded again"
		case before[s.SkillID] != "":
			changed = "loaded again after a change"
		case s.DigestChanged:
			changed = "changed since it was indexed"
		}
		before[s.SkillID] = s.Digest
		rows = append(rows, []string{s.Name, s.Tier, loadedBy(s.Source), a.short(s.Digest), changed})
	}
	return rows
}

// loadedBy describes an activation source.
func loadedBy(source string) string {
	words := map[string]string{"cli-preload": "preloaded", "model-tool": "loaded by the model", "user-explicit": "loaded by the user", "subagent-inherit": "preloaded for the subagent"}
	return cmp.Or(words[source], source)
}

func (a *app) readRows(r run.Report) (rows [][]string) {
	for _, x := range r.Reads {
		size, found, note := "", "", ""
		if x.ObservedSizeBytes != nil {
			size = plural.Thousands(*x.ObservedSizeBytes) + " bytes"
		}
		if x.ObservedDigest != nil {
			found = a.short(*x.ObservedDigest)
		}
		switch {
		case x.Error != nil:
			note = x.Error.Code
		case x.DigestMatchesRegistry != nil && !*x.DigestMatchesRegistry:
			note = "changed since it was indexed"
		case x.Truncated:
			note = fmt.Sprintf("cut at %s bytes", plural.Thousands(int64(x.MaxBytes)))
		}
		rows = append(rows, []string{x.SkillName, x.Path, x.Status, size, found, note})
	}
	return rows
}

// scriptRows shows where each script ran and how it ended. unsafe-host is named in its row.
func scriptRows(r run.Report) (rows [][]string) {
	for _, x := range r.Scripts {
		took := ""
		if x.WallMS != nil {
			took = elapsed(time.Duration(*x.WallMS) * time.Millisecond)
		}
		rows = append(rows, []string{x.SkillName, x.Path, x.Status, ending(x), strings.TrimSpace(set(x.Backend) + " " + set(x.Level)), took, strings.Join(x.Notes, ", ")})
	}
	return rows
}

// ending returns the exit code of a script, what else ended it, or why it did not run.
func ending(x run.Script) string {
	switch {
	case x.Error != nil:
		return x.Error.Code
	case x.Limit != nil && *x.Limit == sandbox.LimitCancelled:
		return "interrupted"
	case x.Limit != nil:
		return "limit " + *x.Limit
	case x.Signal != nil:
		return "signal " + *x.Signal
	case x.ExitCode != nil:
		return fmt.Sprintf("exit %d", *x.ExitCode)
	}
	return ""
}

// set returns a value of an artifact, or "" for null.
func set(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// refusalRows lists the decisions other than a plain yes. Scripts that could not run are listed
// with the scripts.
func refusalRows(r run.Report) (rows [][]string) {
	for _, d := range r.Decisions {
		if d.Decision != "allowed" && d.Decision != "failed" {
			rows = append(rows, []string{fmt.Sprintf("#%d", d.Seq), d.Decision, d.Tool, d.Code, d.Rule, strings.Join(d.Risk, ", ")})
		}
	}
	return rows
}

func (a *app) fileRows(r run.Report) (rows [][]string) {
	for _, f := range r.Files {
		change := ""
		if f.After != "" {
			before := a.short(f.Before)
			if before == "" || before == "absent" {
				before = "new"
			}
			change = before + " → " + a.short(f.After)
		}
		rows = append(rows, []string{f.Path, f.Tool, change})
	}
	return rows
}

// answerRows lists the answers to questions. Without a text, the call was allowed before it was
// asked.
func answerRows(r run.Report) (rows [][]string) {
	for _, q := range r.Asked {
		asks, _ := engine.Coverage(run.Text(q.Text))
		if run.Text(q.Text) == "null" {
			asks = "allowed in advance"
		}
		on := asks + " [" + q.Call + "]"
		switch {
		case q.Answer != nil:
			rows = append(rows, []string{yesNo(q.Answer.Allow), q.Answer.Scope, "by " + q.Answer.By, q.Answer.Surface, localTime(q.Answer.At), on})
		case q.Expired:
			rows = append(rows, []string{"expired", "", "", "", "", on})
		}
	}
	return rows
}

// showPendings prints what the run waits for, and how to answer.
func (a *app) showPendings(dir string, r run.Report) {
	if len(r.Questions) == 0 {
		return
	}
	fmt.Fprintf(a.Out, "\nwaiting for an answer: metier runs approve|deny %s%s\n", a.named(result{Run: r.ID, Dir: dir}), pick(r.Questions))
	for _, q := range r.Questions {
		a.showPending(q, "  ")
	}
}

// childRows lists the subagents in the order of the calls that started them, which can differ from
// the order in which they ended.
func childRows(r run.Report) (rows [][]string) {
	children := slices.Clone(r.Children)
	turn := func(c run.ChildRun) (turn, call int) {
		_, _ = fmt.Sscanf(c.ID, "t%d.c%d", &turn, &call) // another id counts as none
		return turn, call
	}
	slices.SortStableFunc(children, func(a, b run.ChildRun) int {
		at, ac := turn(a)
		bt, bc := turn(b)
		return cmp.Or(cmp.Compare(at, bt), cmp.Compare(ac, bc))
	})
	for _, c := range children {
		rows = append(rows, []string{c.Run, c.Profile, cmp.Or(c.Code, "done"), plural.Thousands(c.Tokens) + " tokens"})
	}
	return rows
}

// problemRows lists each problem with its code, entry and subject.
func problemRows(ps []run.Problem) (rows [][]string) {
	for _, p := range ps {
		at := ""
		if p.Seq > 0 {
			at = fmt.Sprintf("#%d", p.Seq)
		}
		rows = append(rows, []string{p.Code, at, p.On, p.Detail})
	}
	return rows
}

func noticeRows(ns []run.Notice) (rows [][]string) {
	for _, n := range ns {
		rows = append(rows, []string{n.Code, fmt.Sprintf("#%d", n.Seq), n.Severity, asFlags(n.Text)})
	}
	return rows
}

// showTranscript prints the conversation, a paragraph for each message.
func (a *app) showTranscript(t run.Transcript) error {
	if a.json {
		return a.document(t)
	}
	for _, m := range t.Messages {
		head := fmt.Sprintf("#%d %s", m.Seq, m.Role)
		for _, s := range []string{m.By, m.Tool, m.Call, m.Code} {
			if s != "" {
				head += " " + s
			}
		}
		if m.Skill != nil {
			head += " " + m.Skill.Name + " " + a.short(m.Skill.Digest)
		}
		fmt.Fprintf(a.Out, "%s\n", oneLine(head))
		body := messageText(m)
		if m.ShownBy != "" {
			body = "the skill's instructions are in the result of " + m.ShownBy
		}
		for line := range strings.Lines(body) {
			fmt.Fprintf(a.Out, "  %s\n", strings.TrimRight(printable(line), "\n"))
		}
		fmt.Fprintln(a.Out)
	}
	return nil
}

// messageText returns the content of one message as text.
func messageText(m run.Message) string {
	var parts []model.Part
	if json.Unmarshal(m.Content, &parts) != nil {
		if gap, ok := run.GapIn(m.Content); ok {
			if gap.Altered {
				return "[the content does not match its digest: " + gap.Digest + "]"
			}
			return "[the content was erased: " + gap.Digest + "]"
		}
		return string(m.Content)
	}
	var out []string
	for _, p := range parts {
		switch p.Kind {
		case "call":
			out = append(out, oneLine(fmt.Sprintf("→ %s %s %s", p.Call, p.Tool, cmp.Or(string(p.Args), p.Text))))
		case "image":
			out = append(out, fmt.Sprintf("[image, %s, %d bytes]", p.Media, len(p.Data)))
		case "opaque":
			out = append(out, fmt.Sprintf("[a block from %s, stored unchanged, %d bytes]", p.Provider, len(p.Opaque)))
		default:
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}
