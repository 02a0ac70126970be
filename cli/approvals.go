package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"metier"
	"metier/event"
	"metier/internal/confine"
	"metier/internal/jsonedit"
	"metier/policy"
)

// approval is a yes that holds always, for exactly what it binds: a script in
// one tree, under one level of isolation and one network (D3).
type approval struct {
	ID     string            `json:"id"` // of the question
	Binds  string            `json:"binds"`
	Code   string            `json:"code"`
	Covers map[string]string `json:"covers"` // the same in words
	By     string            `json:"by"`
	At     string            `json:"at"`
	Run    string            `json:"run"`
}

// keyApprovals is the member of the file that is ours.
const keyApprovals = "approvals"

// mostApprovals bounds the file.
const mostApprovals = 2000

var bindsForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func newApproval(q event.Asked, text, run, by string, at time.Time) approval {
	_, covers := coverage(text)
	delete(covers, labelSubagent) // it holds for whoever asks the same
	return approval{ID: q.ID, Binds: q.Binds, Code: q.Code, Covers: covers, By: by, At: at.UTC().Format(time.RFC3339), Run: run}
}

// approvalFile is the file of them, in the user's state folder.
func (a *app) approvalFile() (switches, error) {
	own := a.userSwitches()
	if len(own) == 0 {
		return switches{}, errNoHome
	}
	return switches{path: filepath.Join(filepath.Dir(own[0].path), "approvals.json"), approvals: true}, nil
}

// approvalsOf reads the list of a file, strictly: one entry that is not
// understood makes the file one that says nothing.
func approvalsOf(o *jsonedit.Object) ([]approval, error) {
	if o == nil {
		return nil, nil
	}
	raw, err := texts(o, keyApprovals)
	if err != nil {
		return nil, err
	}
	out := make([]approval, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", keyApprovals, i+1, err)
		}
		if p := out[i]; !bindsForm.MatchString(p.Binds) || p.ID == "" || p.By == "" {
			return nil, fmt.Errorf("%s: entry %d: it does not say what was approved, or by whom", keyApprovals, i+1)
		}
	}
	return out, nil
}

// approvals reads the file.
func (a *app) approvals() ([]approval, error) {
	f, err := a.approvalFile()
	if err != nil {
		return nil, nil // without a home there is nothing to read
	}
	o, err := f.load()
	if err == nil {
		var list []approval
		if list, err = approvalsOf(o); err == nil && len(list) > 0 {
			if !confine.OnlyOwn(f.path) {
				err = errors.New("others than you can write to it")
			}
		}
		if err == nil {
			return list, nil
		}
	}
	return nil, &metier.Error{Op: "approvals", Path: f.path, Kind: metier.Unavailable, Code: "approvals_unreadable",
		Hint: "mend the file or move it away; until then every script that needs an approval asks", Err: fmt.Errorf("%s cannot be used, so no approval in it counts: %w", f.path, err)}
}

// standing are the answers that hold always. A file that cannot be understood
// gives none.
func (a *app) standing() map[string]policy.Answer {
	list, err := a.approvals()
	if err != nil {
		if p := problemOf(err); !a.json {
			fmt.Fprintf(a.Err, "note: %s [%s]\n", oneLine(p.err.Error()), p.code)
		}
		a.logger().Warn("no standing approval counts", "err", err)
	}
	out := make(map[string]policy.Answer, len(list))
	for _, p := range list {
		out[p.Binds] = policy.Answer{Question: p.ID, Allow: true, Scope: policy.ScopeAlways, By: p.By}
	}
	return out
}

// settle answers what a resumed run waits for and what was approved always since
// it was asked.
func (j *job) settle(ctx context.Context) error {
	calls := j.session.State().Calls
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		q := calls[id].Question
		ans, ok := j.standing[q.Binds]
		if q.ID == "" || !ok {
			continue
		}
		if err := j.session.Answer(ctx, id, policy.Answer{Question: q.ID, Allow: true, Scope: policy.ScopeOnce, By: ans.By}); err != nil {
			return err
		}
	}
	return nil
}

// keepApproval adds one to the file, in the place of an older one for the same.
func (a *app) keepApproval(ctx context.Context, p approval) error {
	return a.changeApprovals(ctx, func(q approval) bool { return q.Binds == p.Binds }, &p)
}

// changeApprovals takes some out of the file and puts one in.
func (a *app) changeApprovals(ctx context.Context, gone func(approval) bool, put *approval) error {
	f, err := a.approvalFile()
	if err != nil {
		return err
	}
	kept, err := f.change(ctx, func(o *jsonedit.Object) (bool, error) {
		out, changed, err := rewritten(o, keyApprovals, gone, put)
		if err != nil {
			return false, err
		}
		if len(out) > mostApprovals {
			return false, fmt.Errorf("it holds %d approvals, the most there can be; take some back", mostApprovals)
		}
		raw, err := json.Marshal(out)
		if changed {
			o.Set(keyApprovals, raw)
		}
		return changed, err
	})
	if kept != "" && !a.json {
		fmt.Fprintf(a.Err, "note: %s could not be understood; it is kept as %s\n", oneLine(f.path), oneLine(kept))
	}
	if err != nil {
		return f.fault(err)
	}
	return nil
}

func (a *app) runsApprovalsCommand() *cobra.Command {
	var revoke []string
	c := &cobra.Command{Use: "approvals", Short: "List the scripts that are approved always, or take that back",
		Long: `Approvals lists the answers that were given for always. Each holds for one script
while all files of its skill, the isolation and the network are the same. It is
kept in approvals.json of metier's state folder. A run that it was given in keeps
the answer, also when it is taken back.`,
		Example: "  metier runs approvals\n  metier runs approvals --revoke q-e33acb2b6745dced\n  metier runs approvals --revoke report --json", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(revoke) > 0 {
				return a.revoke(c.Context(), revoke)
			}
			return a.listApprovals()
		}}
	c.Flags().StringArrayVar(&revoke, "revoke", nil, "take back one, by its id, or all of a skill, by its name (repeatable)")
	a.completions(c)
	_ = c.RegisterFlagCompletionFunc("revoke", func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		list, _ := a.approvals() // completion shows no errors
		var out []cobra.Completion
		for _, p := range list {
			out = append(out, cobra.CompletionWithDesc(p.ID, oneLine(p.Covers["skill"]+" "+p.Covers["script"])))
		}
		return starting(out, typed), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// of reports whether a person means this one.
func (p approval) of(what string) bool {
	skill := p.Covers["skill"]
	name, id := cutSkill(skill)
	return what == p.ID || what != "" && (what == name || what == id || what == skill)
}

// cutSkill splits NAME (ID) as questions write it.
func cutSkill(s string) (name, id string) {
	m := skillForm.FindStringSubmatch(s)
	if m == nil {
		return s, ""
	}
	return m[1], m[2]
}

var skillForm = regexp.MustCompile(`^(.*) \(([^()]*)\)$`)

func (a *app) revoke(ctx context.Context, what []string) error {
	list, err := a.approvals()
	if err != nil {
		return err
	}
	var gone []approval
	for _, w := range what {
		n := len(gone)
		for _, p := range list {
			if p.of(w) {
				gone = append(gone, p)
			}
		}
		if len(gone) == n {
			return &metier.Error{Op: "approvals", Skill: w, Kind: metier.NotFound, Code: "approval_not_found", Hint: "'metier runs approvals' lists them", Err: errors.New("no approval has that id, and none is for a skill of that name")}
		}
	}
	if err := a.changeApprovals(ctx, func(p approval) bool { return slices.ContainsFunc(what, p.of) }, nil); err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]any{"revoked": gone})
	}
	for _, p := range gone {
		fmt.Fprintf(a.Out, "%s %s is not approved any more\n", oneLine(p.Covers["skill"]), oneLine(p.Covers["script"]))
		if p.Run != "" {
			fmt.Fprintf(a.Out, "  run %s, where it was answered, keeps the answer\n", oneLine(p.Run))
		}
	}
	return nil
}

func (a *app) listApprovals() error {
	list, err := a.approvals()
	if err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]any{"approvals": append([]approval{}, list...)})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.Out, "nothing is approved always")
		return err
	}
	t := table{heads: []string{"ID", "SKILL", "SCRIPT", "TREE", "SANDBOX", "NETWORK", "BY", "SINCE"}}
	for _, p := range list {
		t.add(p.ID, p.Covers["skill"], p.Covers["script"], a.short(p.Covers["tree"]), p.Covers["sandbox"], p.Covers["network"], p.By, localTime(p.At))
	}
	t.print(a.Out, "")
	return nil
}
