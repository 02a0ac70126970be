package userstate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"metier"
	"metier/internal/confine"
	"metier/internal/jsonedit"
)

// Approval is a permanent approval of exactly what it binds: a script in one tree,
// under one isolation level and one network.
type Approval struct {
	ID     string            `json:"id"` // of the question
	Binds  string            `json:"binds"`
	Code   string            `json:"code"`
	Covers map[string]string `json:"covers"` // what it binds, for people
	By     string            `json:"by"`
	At     string            `json:"at"`
	Run    string            `json:"run"`
}

// keyApprovals is the member of the file that is ours.
const keyApprovals = "approvals"

// mostApprovals bounds the file.
const mostApprovals = 2000

var bindsForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// approvalFile is the file of them, in the user's state folder.
func (st Store) approvalFile() (File, error) {
	own := st.Own()
	if len(own) == 0 {
		return File{}, ErrNoHome
	}
	return File{Path: filepath.Join(filepath.Dir(own[0].Path), "approvals.json"), approvals: true}, nil
}

// approvalsOf reads the list of a file, strictly: one entry that is not
// understood makes the file one that says nothing.
func approvalsOf(o *jsonedit.Object) ([]Approval, error) {
	if o == nil {
		return nil, nil
	}
	out, err := decoded[Approval](o, keyApprovals)
	if i := slices.IndexFunc(out, func(p Approval) bool { return !p.complete() }); i >= 0 {
		return nil, fmt.Errorf("%s: entry %d: it does not name what was approved, or by whom", keyApprovals, i+1)
	}
	return out, err
}

// complete reports whether an approval says what was approved, and by whom.
func (p Approval) complete() bool { return bindsForm.MatchString(p.Binds) && p.ID != "" && p.By != "" }

// Approvals lists the permanent approvals. A file that cannot be used is an error,
// and its approvals are ignored.
func (st Store) Approvals() ([]Approval, error) {
	f, err := st.approvalFile()
	if err != nil {
		return nil, nil // without a home there is nothing to read
	}
	o, err := f.load()
	if err == nil {
		var list []Approval
		if list, err = approvalsOf(o); err == nil && len(list) > 0 {
			if !confine.OnlyOwn(f.Path) {
				err = errors.New("other users can write to it")
			}
		}
		if err == nil {
			return list, nil
		}
	}
	return nil, &metier.Error{Op: "approvals", Path: f.Path, Kind: metier.Unavailable, Code: "approvals_unreadable",
		Hint: "fix the file or move it away; until then, runs ask about every script", Err: fmt.Errorf("%s cannot be used, so its approvals are ignored: %w", f.Path, err)}
}

// Approve keeps a permanent approval, in place of an older one for the same. kept is
// the path of a copy if the file could not be understood.
func (st Store) Approve(ctx context.Context, p Approval) (kept string, err error) {
	if !p.complete() { // it would make the whole file one that says nothing
		return "", metier.Errorf(metier.Invalid, "approval_incomplete", "set ID, Binds, and By", "the approval %q does not name what was approved, or by whom", p.ID)
	}
	return st.changeApprovals(ctx, func(q Approval) bool { return q.Binds == p.Binds }, &p)
}

// Revoke removes the approvals that are gone.
func (st Store) Revoke(ctx context.Context, gone func(Approval) bool) (kept string, err error) {
	return st.changeApprovals(ctx, gone, nil)
}

// changeApprovals removes approvals from the file and adds one.
func (st Store) changeApprovals(ctx context.Context, gone func(Approval) bool, put *Approval) (kept string, err error) {
	f, err := st.approvalFile()
	if err != nil {
		return "", err
	}
	kept, err = f.change(ctx, func(o *jsonedit.Object) (bool, error) { return rewrite(o, keyApprovals, mostApprovals, gone, put) })
	if err != nil {
		return kept, f.fault(err)
	}
	return kept, nil
}

// ApprovalFile returns the path of the file of permanent approvals, or "".
func (st Store) ApprovalFile() string {
	f, err := st.approvalFile()
	if err != nil {
		return ""
	}
	return f.Path
}

// Names reports whether what is the question, the skill, or the ID of the skill of
// the approval.
func (p Approval) Names(what string) bool {
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
