package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/plural"
	"metier/record"
)

// VerifyReport is the result of Verify. Warnings do not invalidate the record.
type VerifyReport struct {
	ID        string            `json:"id"`
	OK        bool              `json:"ok"`
	Head      record.Head       `json:"head"`
	Record    record.Report     `json:"record"`
	HasHeads  bool              `json:"witnessed"` // heads of this log are kept elsewhere, also if they are of entries that it lacks
	Artifacts map[string]string `json:"artifacts"` // file → equal, stale, missing, differs, unknown
	Problems  []Problem         `json:"problems"`
	Warnings  []Problem         `json:"warnings"`
}

// Verify checks the record (chain, blobs, heads, children), that this build knows every required
// entry, that every artifact is what the log produces, and that the skill artifacts agree with each
// other. The error is only for failures that prevented the check.
func Verify(ctx context.Context, f *Folder) (VerifyReport, error) {
	r, err := f.verifyLog(ctx)
	if err != nil {
		return r, err
	}
	if err := f.verifyFiles(ctx, &r); err != nil {
		return r, err
	}
	r.OK = r.Record.OK() && len(r.Problems) == 0
	return r, nil
}

// VerifyAt is Verify for a folder whose log may be too damaged for Look. In that case its artifacts
// are not checked, because there is nothing to check them against. A log that is missing although
// heads of it are recorded is a problem, not an error.
func VerifyAt(ctx context.Context, root, id string, o *Options) (VerifyReport, error) {
	f, damage, err := lookDamaged(root, id, o)
	if metier.CodeOf(err) == CodeNotFound && Known(root, id, o) {
		return verifyMissing(ctx, root, id, o, err)
	}
	if err != nil {
		return VerifyReport{ID: id}, err
	}
	defer func() { _ = f.shut() }()
	return f.verify(ctx, damage)
}

// lookDamaged is like Look, but it also opens a folder whose log cannot be read. Then f has no log,
// and damage is the reason.
func lookDamaged(root, id string, o *Options) (f *Folder, damage, err error) {
	f, damage = Look(root, id, o)
	if damage == nil {
		return f, nil, nil
	}
	if metier.KindOf(damage) != metier.Drift {
		return nil, nil, damage
	}
	f, err = lookWithoutLog(root, id, o)
	return f, damage, err
}

// lookWithoutLog is like Look, but does not open the log.
func lookWithoutLog(root, id string, o *Options) (f *Folder, err error) {
	f = &Folder{id: id, dir: filepath.Join(root, id), opt: o.orDefault(), readOnly: true}
	if err = errors.Join(f.openRoot(), f.openHeads(false)); err == nil {
		f.store, err = record.OpenBlobs(filepath.Join(f.dir, dirBlobs), &record.Options{ReadOnly: true, Root: f.root})
		err = fault("verify", f.dir, err)
	}
	if err != nil {
		_ = f.shut()
		return nil, err
	}
	f.blobs = record.Redact(f.store)
	return f, nil
}

// verifyMissing is VerifyAt for a folder that could not be found, or whose log is missing. Only a
// missing log is verified, against its heads. For all else, it returns notFound.
func verifyMissing(ctx context.Context, root, id string, o *Options, notFound error) (VerifyReport, error) {
	info, err := os.Lstat(filepath.Join(root, id))
	if err != nil || !info.IsDir() {
		return VerifyReport{ID: id}, notFound
	}
	f, err := lookWithoutLog(root, id, o)
	if err != nil {
		return VerifyReport{ID: id}, err
	}
	defer func() { _ = f.shut() }()
	r, err := f.verifyLog(ctx)
	if err == nil {
		p := Problem{Code: CodeNoLog, Detail: fmt.Sprintf("%s is missing, but it existed: %s stored outside the workspace", FileLog, plural.Of(r.Record.Beyond, "head"))}
		r.Problems = append([]Problem{p}, r.Problems...)
	}
	return r, err
}

// verify is Verify for a folder that lookDamaged opened.
func (f *Folder) verify(ctx context.Context, damage error) (VerifyReport, error) {
	if damage == nil {
		return Verify(ctx, f)
	}
	r, err := f.verifyLog(ctx)
	if err == nil && len(r.Problems) == 0 { // never call right what could not be opened
		r.Problems = append(r.Problems, Problem{Code: metier.CodeOf(damage), Detail: damage.Error()})
	}
	return r, err
}

// verifyLog checks the log, its blobs, heads and children.
func (f *Folder) verifyLog(ctx context.Context) (VerifyReport, error) {
	r := VerifyReport{ID: f.id, Artifacts: map[string]string{}, Problems: []Problem{}, Warnings: []Problem{}}
	rec, err := f.verifyRecord(ctx)
	if err != nil {
		return r, err
	}
	r.Record, r.Head, r.HasHeads = rec, rec.Head, rec.Heads+rec.Beyond > 0
	for _, p := range rec.Problems {
		r.Problems = append(r.Problems, Problem{Code: string(p.Code), Seq: p.Seq, Detail: p.Detail})
	}
	if rec.Entries == 0 && len(rec.Problems) == 0 {
		p, err := f.emptyLog()
		if err != nil {
			return r, err
		}
		r.Problems = append(r.Problems, p)
	}
	if f.loose != nil && f.loose.misplaced != nil {
		r.Problems = append(r.Problems, *f.loose.misplaced)
	}
	for _, c := range rec.Children {
		if !c.OK() {
			r.Problems = append(r.Problems, Problem{Code: "child_unverified", On: c.Name, Detail: "the record of a child run does not verify: " + worst(c)})
		}
	}
	if !r.HasHeads {
		r.Warnings = append(r.Warnings, Problem{Code: CodeNoHeads, Detail: "no heads of this log are recorded outside the workspace, so verify cannot detect a truncated, extended, or rewritten log. Heads belong to the path of the run folder: if the workspace was moved or renamed, move it back"})
	}
	if f.heads != nil && f.heads.Bad() > 0 {
		r.Warnings = append(r.Warnings, Problem{Code: CodeHeadsBad, Detail: fmt.Sprintf("%s of the file of heads cannot be read; a crash leaves one, and the others count", plural.Of(f.heads.Bad(), "line"))})
	}
	if rec.Blobs.Erased > 0 {
		r.Warnings = append(r.Warnings, Problem{Code: CodeContentGone, Detail: fmt.Sprintf("erased: %d of %s; the digests remain", rec.Blobs.Erased, plural.Of(rec.Blobs.Checked, "blob"))})
	}
	return r, nil
}

// emptyLog describes a log without entries. Artifacts are written from the log, so if the folder has
// any, the log had entries.
func (f *Folder) emptyLog() (Problem, error) {
	names, err := f.artifactFiles()
	if n := len(names); n > 0 {
		return Problem{Code: CodeEmpty, Detail: fmt.Sprintf("the log holds no entry, but the folder has %s written from it, such as %s: the log was emptied", plural.Of(n, "artifact"), names[0])}, err
	}
	return Problem{Code: CodeEmpty, Detail: "the log holds no entry: the disk was full, or the process was killed when the run began"}, err
}

func (f *Folder) verifyRecord(ctx context.Context) (record.Report, error) {
	o := &record.VerifyOptions{Name: f.name, Children: f.tied}
	if !f.noHead {
		o.Heads = f.heads
	}
	log := record.Lines(noLines{})
	if _, err := f.root.Lstat(FileLog); !errors.Is(err, fs.ErrNotExist) {
		log = record.FileIn(f.root, FileLog)
	}
	rec, err := record.Verify(ctx, log, f.blobs, o)
	return rec, fault("verify", f.dir, err)
}

// noLines are the lines of a log that is missing.
type noLines struct{}

// Lines implements record.Lines.
func (noLines) Lines(context.Context) iter.Seq2[[]byte, error] {
	return func(func([]byte, error) bool) {}
}

// worst returns the path of a child with problems, or of its first descendant with problems, and
// the first problem.
func worst(c record.Report) string {
	if len(c.Problems) > 0 {
		return fmt.Sprintf("%s: entry %d: %s: %s", c.Name, c.Problems[0].Seq, c.Problems[0].Code, c.Problems[0].Detail)
	}
	for _, in := range c.Children {
		if !in.OK() {
			return c.Name + "/" + worst(in)
		}
	}
	return c.Name
}

// verifyFiles compares the artifacts with the log. A log that cannot be folded is reported as one
// more problem.
func (f *Folder) verifyFiles(ctx context.Context, r *VerifyReport) error {
	h, err := recall(ctx, f.id, f.log)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.Problems = append(r.Problems, Problem{Code: CodeUnknown, Detail: err.Error()})
		return nil
	}
	if s, err := f.checkpoint(); err == nil && s.RunID != f.id && s.RunID == h.session() {
		r.Warnings = append(r.Warnings, Problem{Code: CodeRenamed, Detail: fmt.Sprintf("the folder is named %s, but contains the record of run %s", f.id, s.RunID)})
		h.id = s.RunID
	}
	for _, u := range h.unknown {
		p := Problem{Code: CodeUnknown, Seq: u.Seq, On: u.Type, Detail: "this build does not know the type"}
		if u.Must {
			p.Code = CodeNewer
			r.Problems = append(r.Problems, p)
			continue
		}
		r.Warnings = append(r.Warnings, p)
	}
	if bad := h.misplaced(); bad != nil {
		r.Problems = append(r.Problems, *bad)
	}
	if err := f.strays(ctx, h, r); err != nil {
		return err
	}
	j := f.judge(h)
	want, err := j.whole(ctx)
	if err != nil {
		r.Problems = append(r.Problems, Problem{Code: "content_unexpected", Detail: err.Error()})
		return nil
	}
	if err := f.agree(ctx, h, r); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if err := f.compare(ctx, j, want[name], r); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.Problems = append(r.Problems, Problem{Code: "content_unexpected", On: name, Detail: err.Error()})
			return nil
		}
	}
	return f.strangers(want, r)
}

// compare compares the file of an artifact with the log.
func (f *Folder) compare(ctx context.Context, j *judge, a artifact, r *VerifyReport) error {
	b, err := readRegular(f.root, filepath.FromSlash(a.name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if a.name == FileState || !j.h.stateOnly() {
			r.Artifacts[a.name] = artifactMissing
			r.Warnings = append(r.Warnings, Problem{Code: CodeNoArtifact, On: a.name, Detail: "not written, or removed; the log has its content"})
		}
		return nil
	case err == nil && len(b) == 0:
		r.Artifacts[a.name] = artifactMissing
		r.Warnings = append(r.Warnings, Problem{Code: CodeNoArtifact, On: a.name, Detail: "empty, as after a power cut; the log has its content"})
		return nil
	case err != nil:
		r.Artifacts[a.name] = artifactDiffers
		r.Problems = append(r.Problems, Problem{Code: CodeFolderBad, On: a.name, Detail: err.Error()})
		return nil
	}
	state, err := j.of(ctx, a.name, b)
	if err != nil {
		return err
	}
	r.Artifacts[a.name] = state
	switch state {
	case artifactStale:
		r.Warnings = append(r.Warnings, Problem{Code: CodeStale, On: a.name, Detail: "matches an earlier part of the log"})
	case artifactDiffers:
		want, err := a.data()
		if err != nil {
			return err
		}
		r.Problems = append(r.Problems, Problem{Code: CodeArtifact, On: a.name, Detail: "matches neither the current log nor an earlier state of it: " + difference(want, b)})
	}
	return nil
}

// agree checks that calls have results and that the skill artifacts are consistent.
func (f *Folder) agree(ctx context.Context, h *history, r *VerifyReport) error {
	p, err := newProjector(ctx, h, f.blobs, false)
	if err != nil {
		return err
	}
	found, err := p.disagreements()
	r.Problems = append(append(r.Problems, h.results()...), found...)
	return err
}

// fileVerdict is the verification report in an exported run.
const fileVerdict = "verify.json"

// strangers finds files that look like artifacts but that no part of this log would produce.
func (f *Folder) strangers(want map[string]artifact, r *VerifyReport) error {
	names, err := f.artifactFiles()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := want[name]; ok {
			continue
		}
		r.Artifacts[name] = artifactUnknown
		r.Warnings = append(r.Warnings, Problem{Code: CodeArtifact, On: name, Detail: "the log does not produce a file with this name"})
	}
	return nil
}

// artifactFiles returns the names of the files in the folder that look like artifacts, sorted.
func (f *Folder) artifactFiles() ([]string, error) {
	var names []string
	for _, dir := range []string{".", outputsDir} {
		entries, err := fs.ReadDir(f.root.FS(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fault("verify", f.dir, err)
		}
		for _, e := range entries {
			name := e.Name()
			if dir != "." {
				name = dir + "/" + name
			}
			if name != fileVerdict && strings.HasSuffix(name, ".json") && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
