package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"metier"
	"metier/event"
	"metier/record"
)

// tied finds the log of the child run that an entry of this run refers to.
func (f *Folder) tied(_ context.Context, en record.Entry) (*record.Child, error) {
	e, err := event.Decode(en)
	if errors.Is(err, event.ErrUnknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, ok := e.(event.ChildEnded)
	if !ok {
		return nil, nil
	}
	if err := CheckID(c.Run); err != nil {
		return nil, err
	}
	k := f.child(c.Run)
	err = k.openRoot()
	if err == nil {
		err = k.openHeads(false)
	}
	if err != nil {
		return nil, errors.Join(err, k.shut())
	}
	k.store, err = record.OpenBlobs(filepath.Join(k.dir, dirBlobs), &record.Options{ReadOnly: true, Root: k.root})
	if err != nil {
		return nil, errors.Join(err, k.shut())
	}
	return &record.Child{Name: c.Run, Head: c.Head, Log: record.FileIn(k.root, FileLog), Blobs: k.store, Heads: k.heads, Children: k.tied, Close: func() { _ = k.shut() }}, nil
}

// child returns the folder of a child run for reading, not yet opened.
func (f *Folder) child(id string) *Folder {
	o := f.opt
	o.Secrets, o.Top = nil, f.Top()
	return &Folder{id: id, dir: filepath.Join(f.Children(), id), opt: o, readOnly: true}
}

// strays checks the folders of child runs that no entry refers to: the records of children that
// have not ended, and folders that no call of this run created.
func (f *Folder) strays(ctx context.Context, h *history, r *VerifyReport) error {
	there, err := os.ReadDir(f.Children())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault("verify", f.dir, err)
	}
	if len(there) == 0 {
		return nil
	}
	ended, open, failed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, fa := range h.facts {
		switch e := fa.event.(type) {
		case event.ToolCallStarted:
			open[event.ChildName(e.ID)] = true
		case event.ToolResult:
			name := event.ChildName(e.ID)
			failed[name] = open[name] && e.Code != ""
			open[name] = false
		case event.ChildEnded:
			ended[e.Run] = true
		}
	}
	for i, d := range there {
		name := d.Name()
		switch {
		case ended[name] && i < maxChildren:
			if err := f.verifyEnded(ctx, name, r); err != nil {
				return err
			}
		case i == maxChildren:
			r.Problems = append(r.Problems, Problem{Code: CodeOverflow, On: dirChilds, Detail: fmt.Sprintf("more than %d folders; the others were not checked", maxChildren)})
			return nil
		case !d.IsDir() || !open[name] && !failed[name]:
			r.Problems = append(r.Problems, Problem{Code: CodeChild, On: dirChilds + "/" + name,
				Detail: "no call of this run began a subagent of that name, so another program put it there; remove it"})
		default:
			if err := f.verifyLoose(ctx, name, failed[name], r); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyEnded checks what the chain of an ended child does not prove: that its calls have results,
// that its skill artifacts agree, and that its files match its log. The chain itself was checked
// with the parent's.
func (f *Folder) verifyEnded(ctx context.Context, name string, r *VerifyReport) error {
	k := f.child(name)
	in, err := VerifyAt(ctx, f.Children(), name, &k.opt)
	if ctx.Err() != nil {
		return err
	}
	if err != nil || !in.Record.OK() {
		return nil // the parent's record is reported for that
	}
	below := func(p Problem) Problem {
		on := dirChilds + "/" + name
		if p.On != "" {
			on += "/" + p.On
		}
		return Problem{Code: p.Code, Seq: p.Seq, On: on, Detail: p.Detail}
	}
	for _, p := range in.Problems {
		r.Problems = append(r.Problems, below(p))
	}
	for _, p := range in.Warnings {
		if p.Code != CodeNoHeads || r.HasHeads {
			r.Warnings = append(r.Warnings, below(p))
		}
	}
	return nil
}

// maxChildren limits how many children's folders are checked.
const maxChildren = 10_000

// verifyLoose checks the record of a child that no entry refers to: either it has not ended, or its
// call failed and nothing from it was used.
func (f *Folder) verifyLoose(ctx context.Context, name string, failed bool, r *VerifyReport) error {
	k, on := f.child(name), dirChilds+"/"+name
	if info, err := os.Lstat(filepath.Join(k.dir, FileLog)); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil // its process was killed before it wrote anything
	}
	in, err := VerifyAt(ctx, f.Children(), name, &k.opt)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		r.Problems = append(r.Problems, Problem{Code: metier.CodeOf(err), On: on, Detail: err.Error()})
	case r.HasHeads && !in.HasHeads:
		r.Problems = append(r.Problems, Problem{Code: CodeChild, On: on, Detail: "no head of this record is recorded, so another program wrote it; remove it"})
	case failed:
		r.Warnings = append(r.Warnings, Problem{Code: CodeChild, On: on, Detail: "the call failed, and nothing of this record was used"})
	default:
		for _, p := range in.Problems {
			r.Problems = append(r.Problems, Problem{Code: p.Code, Seq: p.Seq, On: on, Detail: p.Detail})
		}
	}
	return nil
}
