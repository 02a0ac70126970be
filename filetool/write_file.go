package filetool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"metier"
	"metier/internal/argschema"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
)

// writeMax is the largest file that is written or changed, in bytes.
const writeMax = 8 << 20

//go:embed write_file.md
var writeText string

type writeFile struct{ files }

type writeArgs struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
	IfMatch string  `json:"ifMatch,omitempty"`
}

var writeSchema = sync.OnceValue(func() json.RawMessage {
	return argschema.Object(map[string]any{
		"path":    argschema.Text("Path of the file."),
		"content": argschema.Text("The whole new content."),
		"ifMatch": argschema.Text("Expected current digest of the file, as sha256:…; if it differs, nothing is written."),
	}, "path", "content")
})

func (t writeFile) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return t.spec(settings.ToolWriteFile, writeText, policy.Write, writeSchema()), true
}

func (t writeFile) args(raw json.RawMessage) (writeArgs, error) {
	var a writeArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, err
	}
	switch {
	case a.Path == "":
		return a, missing("path")
	case a.Content == nil:
		return a, missing("content")
	}
	return a, checkSize(len(*a.Content))
}

func checkSize(n int) error {
	if n > writeMax {
		return &metier.Error{Op: "write", Kind: metier.LimitReached, Code: "file_too_large", Err: fmt.Errorf("%d bytes; at most %d are written", n, writeMax)}
	}
	return nil
}

func (a writeArgs) change([]byte) ([]byte, string, int) { return []byte(*a.Content), "", 0 }

func (t writeFile) Facts(_ context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, err := t.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	return t.plan(s, a.Path, a.IfMatch, a.change, true)
}

func (t writeFile) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(x.Call().Args)
	if err != nil {
		return failed(ctx, err)
	}
	return t.carryOut(ctx, x, settings.ToolWriteFile, a.Path, a.change)
}

// change makes the new content from the old; a code says why it cannot.
type change func(old []byte) (fresh []byte, code string, count int)

const absent = "absent"

// plan states what a write finds and will leave. What stands against it is part
// of the intent and told by Invoke: a call that is taken up after a crash finds
// its own result, and must not be refused for it.
func (f files) plan(s *metier.Session, p, ifMatch string, do change, create bool) (metier.Facts, error) {
	fa, t, err := f.facts(s, p, policy.Write)
	if err != nil || t.Zone != policy.ZoneWorkspace {
		return fa, err
	}
	in := intent{Path: t.Path, Before: absent}
	old, _, err := t.base.dir.ReadFile(t.Rel, writeMax)
	switch e := readError("write", t.Path, err); {
	case err == nil:
		in.Before = digest.Bytes(old)
	case e.Code != "not_found":
		return fa, e
	case !create:
		in.Code = "not_found"
	}
	switch {
	case in.Code != "":
	case f.strict() && ifMatch == "" && in.Before != absent:
		in.Code = "precondition_required"
	case ifMatch != "" && ifMatch != in.Before:
		in.Code = "precondition_failed"
	default:
		var fresh []byte
		if fresh, in.Code, in.Count = do(old); in.Code == "" {
			if err := checkSize(len(fresh)); err != nil {
				return fa, err
			}
			in.After = digest.Bytes(fresh)
		}
	}
	fa.Intent = in.json()
	return fa, nil
}

// writeDetail is the tool output artifact of both write tools.
type writeDetail struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
	Size   int    `json:"sizeBytes"`
	Status string `json:"status"` // written, already
	Count  int    `json:"replaced,omitempty"`
}

// carryOut does what was claimed, if the file is as it was then; finds that it
// was done already; or does nothing.
func (f files) carryOut(ctx context.Context, x *metier.ToolContext, name, p string, do change) (metier.Result, error) {
	in := readIntent(x.Intent())
	if in.Code != "" {
		return metier.Failure(refusal(name, in)), nil
	}
	if in.After == "" {
		return metier.Result{}, &metier.Error{Op: name, Path: p, Kind: metier.Internal, Code: "no_intent", Err: errors.New("the call states no intent")}
	}
	t, err := f.again(x, p, true)
	if err != nil {
		return failed(ctx, err)
	}
	f.w.writing.Lock()
	defer f.w.writing.Unlock()
	pl, err := openPlace(t, x.Session().State().Session, x.Call().ID, in.Before == absent)
	if err != nil {
		return failed(ctx, err)
	}
	defer pl.close()
	old, now, err := pl.read()
	if err != nil {
		return failed(ctx, err)
	}
	d := writeDetail{Path: t.Path, Before: in.Before, After: in.After, Status: "written", Count: in.Count}
	switch now {
	case in.After:
		d.Status, d.Size = "already", len(old)
		return f.result(name, fmt.Sprintf("%s already has this content (%s).\n", t.Path, now), d), nil
	case in.Before:
	default:
		return metier.Failure(conflict(name, t.Path)), nil
	}
	fresh, code, _ := do(old)
	if code != "" || digest.Bytes(fresh) != in.After {
		return metier.Failure(conflict(name, t.Path)), nil
	}
	if renamed, err := pl.replace(fresh, now); err != nil {
		if !renamed {
			return metier.Failure(err), nil // nothing happened
		}
		return metier.Result{}, err
	}
	d.Size = len(fresh)
	return f.result(name, f.wrote(t.Path, d), d), nil
}

func (f files) wrote(p string, d writeDetail) string {
	s := fmt.Sprintf("Wrote %s (%d bytes).\n", p, d.Size)
	if d.Count > 0 {
		s = fmt.Sprintf("Changed %s in %d place(s) (%d bytes).\n", p, d.Count, d.Size)
	}
	if f.strict() {
		s += fmt.Sprintf("[digest %s]\n", d.After)
	}
	return s
}

func conflict(op, p string) *metier.Error {
	return &metier.Error{Op: op, Path: p, Kind: metier.Conflict, Code: "conflict", Hint: "read the file again",
		Err: errors.New("the file changed meanwhile; nothing was written")}
}

// refusal words what stood against a write when it was planned.
func refusal(op string, in intent) error {
	e := &metier.Error{Op: op, Path: in.Path, Kind: metier.Conflict, Code: in.Code}
	switch in.Code {
	case "not_found":
		e.Kind, e.Err, e.Hint = metier.NotFound, errors.New("there is no such file"), "use write_file to create it"
	case "precondition_required":
		e.Err, e.Hint = errors.New("ifMatch is required for a file that exists"), "read the file and pass the digest it shows"
	case "precondition_failed":
		e.Err, e.Hint = fmt.Errorf("ifMatch is not the digest of the file, which is %s", in.Before), "read the file again"
	case "no_match":
		e.Err, e.Hint = errors.New("old is not in the file"), "read the file and copy the text exactly"
	case "ambiguous_match":
		e.Err, e.Hint = fmt.Errorf("old is in the file %d times", in.Count), "add lines around it, or set all"
	case "file_too_large":
		e.Kind, e.Err = metier.LimitReached, fmt.Errorf("the file would have more than %d bytes", writeMax)
	case "not_text":
		e.Kind, e.Err = metier.Invalid, errors.New("the file is binary or not UTF-8")
	}
	return e
}
