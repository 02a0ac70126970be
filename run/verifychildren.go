package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

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
		err = k.check()
		if metier.CodeOf(err) == CodeNotFound {
			err = nil // a missing log is compared with its heads
		}
	}
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
	there, err := fs.ReadDir(f.root.FS(), dirChilds)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault("verify", f.dir, err)
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
	f.removed(open, there, r)
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

// removed reports the folders that are missing of children that have not ended. Those of ended
// children are reported with the parent's record.
func (f *Folder) removed(open map[string]bool, there []fs.DirEntry, r *VerifyReport) {
	for _, name := range slices.Sorted(maps.Keys(open)) {
		k := f.child(name)
		if open[name] && Known(f.Children(), name, &k.opt) && !slices.ContainsFunc(there, func(d fs.DirEntry) bool { return d.Name() == name }) {
			r.Problems = append(r.Problems, Problem{Code: CodeNoLog, On: dirChilds + "/" + name, Detail: "the folder is missing, but it existed: heads of its log are stored outside the workspace"})
		}
	}
}

// verifyEnded checks what the chain of an ended child does not prove: that its calls have results,
// that its skill artifacts agree, and that its files match its log. The chain itself was checked
// with the parent's.
func (f *Folder) verifyEnded(ctx context.Context, name string, r *VerifyReport) error {
	k, on := f.child(name), dirChilds+"/"+name
	in, err := VerifyAt(ctx, f.Children(), name, &k.opt)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		r.Problems = append(r.Problems, Problem{Code: metier.CodeOf(err), On: on, Detail: err.Error()})
		return nil
	case !in.Record.OK() && !r.Record.OK():
		return nil // the parent's record is reported for that
	}
	below := func(p Problem) Problem {
		if p.On != "" {
			p.On = "/" + p.On
		}
		return Problem{Code: p.Code, Seq: p.Seq, On: on + p.On, Detail: p.Detail}
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
	in, err := VerifyAt(ctx, f.Children(), name, &k.opt)
	switch {
	case ctx.Err() != nil:
		return err
	case metier.CodeOf(err) == CodeNotFound, err == nil && in.unwritten():
		return nil // its process was killed before it wrote anything
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

// unwritten reports whether nothing was ever written to a record: its log is empty, and neither a
// head nor an artifact of it exists.
func (r VerifyReport) unwritten() bool {
	for _, state := range r.Artifacts {
		if state != artifactMissing {
			return false
		}
	}
	return r.Record.Entries == 0 && r.Record.Head.Seq == 0 && !r.HasHeads
}
