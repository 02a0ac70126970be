package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"metier"
	"metier/event"
	"metier/record"
)

// State returns the state of the run. It uses the checkpoint if that matches the log's head and
// this build's rules, and folds the log otherwise. The checkpoint is a cache that anyone who can
// write to the workspace can forge. Use it for listings, never for decisions.
func (f *Folder) State(ctx context.Context) (State, error) {
	head, err := f.log.Head(ctx)
	if err != nil {
		return State{}, fault("read", f.dir, err)
	}
	if s, err := f.checkpoint(); err == nil && s.Rules == foldRules && s.Head == head && s.Seq == head.Seq && s.RunID == f.id {
		return s, nil
	}
	p, err := f.projector(ctx)
	if err != nil {
		return State{}, err
	}
	return p.state(), nil
}

func (f *Folder) checkpoint() (State, error) {
	var s State
	b, err := readRegular(f.root, FileState)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

func (f *Folder) projector(ctx context.Context) (*projector, error) {
	h, err := recall(ctx, f.id, f.log)
	if err != nil {
		return nil, err
	}
	return newProjector(ctx, h, f.blobs, false)
}

// Restored is what a resumed run starts from.
type Restored struct {
	State       State
	Registry    Registry
	Activations Activations            // as persisted and found right
	Active      []event.SkillActivated // in force, from the log
	Projected   bool                   // the artifacts had never been written; they came from the log
}

// Restore reads what a run needs to continue: the persisted registry and activations, and the
// state. A file of these that is missing or does not match the log is an error that names the file
// (artifact_missing, artifact_altered). So is a required entry that this build does not understand
// (record_newer). A file that matches an earlier part of the log is accepted, and the log takes
// precedence. A run that crashed before it wrote artifacts has none to read, and neither has a session
// for which only run-state.json is written. That is not an error.
func (f *Folder) Restore(ctx context.Context) (Restored, error) {
	p, err := f.projector(ctx)
	if err != nil {
		return Restored{}, err
	}
	if bad := p.h.misplaced(); bad != nil {
		return Restored{}, f.misplacedError(*bad)
	}
	if err := p.h.must(); err != nil {
		return Restored{}, err
	}
	r := Restored{State: p.state(), Registry: p.reg, Activations: Activations{typeActivations, 1, f.id, p.activations()}, Active: p.active()}
	if p.reg.empty() && len(r.Activations.Activations) == 0 || p.h.stateOnly() {
		return r, nil
	}
	if f.missing(FileState) { // it is printed last: the artifacts were never whole
		r.Projected = true
		f.opt.Logger.Info("resume: the artifacts were not written whole before the crash, the log has them", "run", f.id)
		return r, nil
	}
	j := f.judge(p.h)
	for _, name := range []string{FileRegistry, FileActivations} {
		if err := f.persisted(ctx, name, j); err != nil {
			return Restored{}, err
		}
	}
	f.opt.Logger.Info("resume: skill registry loaded", "run", f.id, "file", FileRegistry, "skills", len(r.Registry.Skills))
	f.opt.Logger.Info("resume: skill activations loaded", "run", f.id, "file", FileActivations, "activations", len(r.Activations.Activations))
	return r, nil
}

func (f *Folder) missing(name string) bool {
	_, err := readRegular(f.root, name)
	return errors.Is(err, fs.ErrNotExist)
}

// persisted checks one artifact against the log.
func (f *Folder) persisted(ctx context.Context, name string, j *judge) error {
	path := filepath.Join(f.dir, name)
	b, err := readRegular(f.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return wrong(metier.NotFound, CodeNoArtifact, path, "the log holds the same: take the file from the archive of 'metier runs export "+f.id+" -o run.zip', put it back, then resume",
			"%s was written and is gone", name)
	}
	if err != nil {
		return fault("resume", path, err)
	}
	state, err := j.of(ctx, name, b)
	if err != nil {
		return err
	}
	if state == artifactDiffers {
		return wrong(metier.Drift, CodeArtifact, path, "the log holds the right one: move the file away, take it from the archive of 'metier runs export "+f.id+" -o run.zip', put it back, then resume",
			"%s does not match the log", name)
	}
	return nil
}

// Unaltered returns an error if an artifact does not match the log (artifact_altered). The next write
// would replace one that another program changed, and the change could not be found any more. Missing
// and empty files are accepted: a crash leaves them. A record that the operator trusts as it is is not
// checked.
func (f *Folder) Unaltered(ctx context.Context) error {
	if !f.opt.RequireHead {
		return nil
	}
	p, err := f.projector(ctx)
	if err != nil {
		return err
	}
	j := f.judge(p.h)
	want, err := j.whole(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		b, err := readRegular(f.root, filepath.FromSlash(name))
		if err == nil && len(b) == 0 || errors.Is(err, fs.ErrNotExist) { // empty after a power cut
			continue
		}
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		if err != nil {
			return fault("resume", path, err)
		}
		state, err := j.of(ctx, name, b)
		if err != nil {
			return err
		}
		if state == artifactDiffers {
			return wrong(metier.Drift, CodeArtifact, path, "the log has the right content: move the file elsewhere, then resume; the run writes it again",
				"%s does not match the log", name)
		}
	}
	return nil
}

// active returns the activations in effect, in order of first activation, each with its newest
// text.
func (p *projector) active() (out []event.SkillActivated) {
	for e := range p.h.events() {
		if a, ok := e.(event.SkillActivated); ok {
			out = upsert(out, a, func(x event.SkillActivated) bool { return x.SkillID == a.SkillID })
		}
	}
	return out
}

// upsert replaces the first element that matches v, or appends v.
func upsert[T any](list []T, v T, same func(T) bool) []T {
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i] = v
		return list
	}
	return append(list, v)
}

// The states of an artifact file.
const (
	artifactEqual   = "equal"   // what the log says
	artifactStale   = "stale"   // matches an earlier part of the log
	artifactMissing = "missing" // not there
	artifactDiffers = "differs" // nothing the log ever said
	artifactUnknown = "unknown" // no artifact of this log has that name
)

// judge compares files with the artifacts that the log produces, now or at an earlier time.
type judge struct {
	f      *Folder
	h      *history
	state  uint64                                  // the head the checkpoint names: the last Project, most likely
	now    map[string]artifact                     // of the whole log
	prints map[uint64]map[string][sha256.Size]byte // of earlier parts: digests, by number of entries, by name
}

func (f *Folder) judge(h *history) *judge {
	j := &judge{f: f, h: h, prints: map[uint64]map[string][sha256.Size]byte{}}
	if s, err := f.checkpoint(); err == nil {
		j.state = s.Head.Seq
	}
	return j
}

// of reports whether the bytes are a projection of the log. It tries the whole log first. If the
// bytes name a head, it then tries the part up to that head. Otherwise it tries the part up to the
// checkpoint's head, and the parts before recent entries that change artifacts.
func (j *judge) of(ctx context.Context, name string, data []byte) (string, error) {
	try := func(seq uint64) (bool, error) {
		at, err := j.at(ctx, seq)
		got, ok := at[name]
		return ok && got == sha256.Sum256(data), err
	}
	whole, err := j.whole(ctx)
	if err != nil {
		return "", err
	}
	if a, ok := whole[name]; ok {
		if b, err := a.data(); err != nil || bytes.Equal(b, data) {
			return artifactEqual, err
		}
	}
	var named struct {
		Head record.Head `json:"head"`
	}
	if json.Unmarshal(data, &named) == nil && named.Head.Seq > 0 {
		if named.Head.Seq >= j.h.head.Seq {
			return artifactDiffers, nil
		}
		same, err := try(named.Head.Seq)
		return staleIf(same), err
	}
	if 0 < j.state && j.state < j.h.head.Seq {
		if same, err := try(j.state); err != nil || same {
			return artifactStale, err
		}
	}
	const most = 50 // parts of the log that are tried, newest first
	tried := 0
	for i := len(j.h.facts) - 1; i >= 0 && tried < most; i-- {
		switch j.h.facts[i].event.(type) {
		case event.SkillsDiscovered, event.ResourcesIndexed, event.SkillActivated, event.ResourceRead, event.ToolResult, event.ToolsOffered, event.RunStarted, event.SessionOpened:
			tried++
			if same, err := try(j.h.facts[i].Seq - 1); err != nil || same {
				return artifactStale, err
			}
		}
	}
	return artifactDiffers, nil
}

func staleIf(same bool) string {
	if same {
		return artifactStale
	}
	return artifactDiffers
}

// whole returns the artifacts produced from the whole log, by name.
func (j *judge) whole(ctx context.Context) (map[string]artifact, error) {
	if j.now != nil {
		return j.now, nil
	}
	list, err := j.produced(ctx, j.h)
	if err != nil {
		return nil, err
	}
	j.now = make(map[string]artifact, len(list))
	for _, a := range list {
		j.now[a.name] = a
	}
	return j.now, nil
}

// at returns the digests of the artifacts produced from the log's first seq entries.
func (j *judge) at(ctx context.Context, seq uint64) (map[string][sha256.Size]byte, error) {
	if got, ok := j.prints[seq]; ok {
		return got, nil
	}
	list, err := j.produced(ctx, j.h.upto(seq))
	if err != nil {
		return nil, err
	}
	out := make(map[string][sha256.Size]byte, len(list))
	for _, a := range list {
		b, err := a.data()
		if err != nil {
			return nil, err
		}
		out[a.name] = sha256.Sum256(b)
	}
	j.prints[seq] = out
	return out, nil
}

func (j *judge) produced(ctx context.Context, h *history) ([]artifact, error) {
	p, err := newProjector(ctx, h, j.f.blobs, false)
	if err != nil {
		return nil, err
	}
	return p.all()
}

// stateOnly reports whether run-state.json is the only artifact that was written.
func (h *history) stateOnly() bool {
	e, _, _ := last[event.SessionEnded](h)
	return e.StateOnly
}

// upto returns the history of the first seq entries.
func (h *history) upto(seq uint64) *history {
	if seq >= h.head.Seq {
		return h
	}
	out := &history{id: h.id}
	for i, f := range h.facts {
		if f.Seq > seq {
			out.head = record.Head{Seq: seq, Hash: h.facts[i].Prev}
			break
		}
		out.facts = append(out.facts, f)
		if f.event == nil {
			out.unknown = append(out.unknown, f)
		}
	}
	return out
}
