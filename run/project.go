package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/record"
	"metier/registry"
)

// The artifacts of a run folder.
const (
	FileRegistry       = "skill-registry.json"
	FileActivations    = "skill-activations.json"
	FileReads          = "skill-resource-reads.json"
	FileScripts        = "skill-script-executions.json"
	FilePolicySnapshot = "policy-snapshot.json"
	FilePolicyTrace    = "policy-trace.json"
	FileTranscript     = "transcript.json"
	FileCapabilities   = "capabilities.json"
	FileManifest       = "run-manifest.json"
	FileReport         = "run-report.json"
	FileState          = "run-state.json"

	outputsDir = "tool-outputs"
)

// projector produces artifacts from a history. Its only state is a cache of what it read.
type projector struct {
	h        *history
	c        *contents
	reg      Registry
	index    *index                    // of reg; nil where skills of reg differ from it
	skills   map[string]registry.Skill // not to be changed
	started  map[string]event.ToolCallStarted
	decided  map[string]event.PolicyDecided // the newest of each call
	returned map[string]event.ToolResult
	asked    map[string]event.CallRef // as the model asked for it
	executed map[string]executed
	readList []Read // what reads found, once it has
	// scriptList and commandList cache the results of scripts and commands.
	scriptList  []Script
	commandList map[string]Command
	found       []Problem // content that is not what the log says it is
	noted       map[string]bool
}

// executed is what the log records about the program of a call.
type executed struct {
	event.Execution
	fact   fact
	script bool // of a skill; else a command
}

// newProjector returns the projector of a history. If the history is fresh, this process has just
// stored the registry, and it need not be read again.
func newProjector(ctx context.Context, h *history, blobs record.Blobs, fresh bool) (*projector, error) {
	p := &projector{h: h, c: &contents{ctx: ctx, blobs: blobs}, started: map[string]event.ToolCallStarted{}, decided: map[string]event.PolicyDecided{},
		returned: map[string]event.ToolResult{}, executed: map[string]executed{}, noted: map[string]bool{}, asked: map[string]event.CallRef{}}
	for _, f := range h.facts {
		switch e := f.event.(type) {
		case event.ToolCallStarted:
			p.started[e.ID] = e
		case event.PolicyDecided:
			p.decided[e.Call] = e
		case event.ToolResult:
			p.returned[e.ID] = e
		case event.ModelReplied:
			for _, c := range e.Calls {
				p.asked[c.ID] = c
			}
		case event.ScriptExecuted:
			p.executed[e.Call] = executed{e.Execution, f, true}
		case event.CommandExecuted:
			p.executed[e.Call] = executed{e.Execution, f, false}
		}
	}
	var err error
	if p.reg, err = p.registry(fresh); err == nil && p.index == nil {
		p.skills, err = p.reg.lookups()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// decode reads JSON content into v as far as it matches. A gap, or content of another shape, is
// noted as a problem and leaves v unchanged.
func (p *projector) decode(seq uint64, r record.Ref, v any) {
	b, gap := p.c.load(r)
	if gap != nil {
		p.gap(seq, gap)
	}
	if b == nil {
		return
	}
	if err := json.Unmarshal(b, v); err != nil {
		p.note(Problem{"content_unexpected", seq, r.Digest, err.Error()})
	}
}

func (p *projector) gap(seq uint64, g *Gap) {
	code, text := CodeContentGone, "the content was erased"
	if g.Altered {
		code, text = CodeContentWrong, "the content is not what its digest names"
	}
	p.note(Problem{code, seq, g.Digest, text})
}

func (p *projector) note(pr Problem) {
	key := pr.Code + " " + pr.On
	if !p.noted[key] {
		p.noted[key] = true
		p.found = append(p.found, pr)
	}
}

// args reads the arguments of a call into v. The model may have produced malformed arguments, so
// only matching fields are set.
func (p *projector) args(call string, v any) {
	b, gap := p.c.load(p.argsOf(call))
	if gap != nil {
		p.gap(0, gap)
	}
	if b != nil {
		_ = json.Unmarshal(b, v) // arguments are the model's: any shape is possible
	}
}

// badIndex is the error for a registry in the record that does not contain valid skills.
func badIndex(err error) error {
	return &metier.Error{Op: "project", Kind: metier.Drift, Code: "content_unexpected", Err: fmt.Errorf("the registry of %s: %w", event.SkillsDiscovered{}.Type(), err),
		Hint: "do not rely on this record: the blob is complete but does not match its entry, so another program wrote it"}
}

// artifact is one file to write. It is printed when its data is needed, because all of them together
// can repeat the content of the record many times.
type artifact struct {
	name    string // slash path in the folder
	content func() (pieces, error)
}

// data returns the content.
func (a artifact) data() ([]byte, error) {
	p, err := a.content()
	return p.whole(), err
}

// all returns every artifact, with run-state.json last: when a reader sees a new run-state.json,
// the others are new too.
func (p *projector) all() (out []artifact, err error) {
	add := func(name string, v func() any) {
		out = append(out, artifact{name, func() (pieces, error) {
			b, err := printed(v())
			p.c.fail(err)
			return pieces{b}, p.c.err
		}})
	}
	acts, reads, scripts := p.activations(), p.reads(), p.scripts()
	_ = p.commands() // the report lists what is wrong with their content
	if !p.reg.empty() || len(acts)+len(reads)+len(scripts) > 0 {
		out = append(out, artifact{FileRegistry, p.printedRegistry})
		add(FileActivations, func() any { return Activations{typeActivations, 1, p.h.id, acts} })
		add(FileReads, func() any { return Reads{typePrefix + "skill-resource-reads", 1, p.h.id, reads} })
		add(FileScripts, func() any { return Scripts{typePrefix + "skill-script-executions", 1, p.h.id, scripts} })
	}
	snapshot, err := p.policySnapshot()
	if err != nil {
		return nil, err
	}
	slots, transcript := p.promptSlots(), p.withoutOutputs()
	add(FilePolicySnapshot, func() any { return snapshot })
	add(FilePolicyTrace, func() any {
		return PolicyTrace{typePrefix + "policy-trace", 1, p.h.id, p.h.head, pointed(slots, transcript), p.decisions(slots), p.questions()}
	})
	add(FileTranscript, func() any { return transcript })
	add(FileCapabilities, func() any { return p.capabilities() })
	add(FileManifest, func() any { return p.manifest() })
	outputs := p.outputs()
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		add(outputsDir+"/"+name, func() any { return outputs[name]() })
	}
	add(FileReport, func() any { return p.report() })
	add(FileState, func() any { return p.state() })
	return out, p.c.err
}

func (p *projector) printedRegistry() (pieces, error) {
	if p.index != nil {
		return p.index.printed(p.reg)
	}
	b, err := printed(p.reg)
	return pieces{b}, err
}

// pieces is the content of a file in parts, so that runs can share a part.
type pieces [][]byte

// whole returns the content in one part.
func (p pieces) whole() []byte {
	if len(p) == 1 {
		return p[0]
	}
	return bytes.Join(p, nil)
}

// projections limits how many runs with a large registry are projected at once, because each holds
// its entire output in memory.
var projections = make(chan struct{}, 4)

const largeRegistry = 256 << 10 // bytes

// Project rewrites every artifact from the log. Each is written to a temporary file that is then
// renamed, so a crash leaves complete files, old or new. Files that are already correct are not
// written. Calls may overlap: the later one wins as a whole.
func (f *Folder) Project(ctx context.Context) error { return f.project(ctx, false) }

// ProjectStart writes the artifacts that a resume reads, if the run has none yet. The others say little
// before the run ends, and [Folder.Project] then writes them. If there are artifacts, it is Project: all
// of them are from one part of the log, or newer.
func (f *Folder) ProjectStart(ctx context.Context) error { return f.project(ctx, true) }

// resumable lists the artifacts that a resume reads.
var resumable = []string{FileRegistry, FileActivations, FileState}

func (f *Folder) project(ctx context.Context, start bool) error {
	f.projecting.Lock()
	defer f.projecting.Unlock()
	if f.readOnly {
		return wrong(metier.Invalid, "read_only", f.dir, "open the run for writing", "the run was opened for reading")
	}
	h, err := recall(ctx, f.id, f.log)
	if err != nil {
		return err
	}
	if e, _, _ := last[event.SkillsDiscovered](h); e.Registry.Size > largeRegistry {
		select {
		case projections <- struct{}{}:
			defer func() { <-projections }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	start = start && f.missing(FileState)
	p, err := newProjector(ctx, h, f.blobs, start)
	if err != nil {
		return err
	}
	list, err := p.all()
	if err != nil {
		return err
	}
	if start {
		list = slices.DeleteFunc(list, func(a artifact) bool { return !slices.Contains(resumable, a.name) })
	}
	if err := f.makeOutputs(); err != nil {
		return err
	}
	w := &batch{f: f}
	defer w.discard()
	for _, a := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := a.content()
		if err != nil {
			return err
		}
		if a.name == FileState { // it must not survive a power failure that the others do not
			if err := w.commit(); err != nil {
				return err
			}
		}
		if err := w.add(a.name, b); err != nil {
			return err
		}
	}
	return w.commit()
}

// readRegular reads a file of the run folder. Symlinks and other non-regular files are errors.
func readRegular(root *os.Root, name string) ([]byte, error) {
	path := filepath.Join(root.Name(), name)
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, wrong(metier.Denied, CodeFolderBad, path, "remove it; a run folder holds no links", "not a plain file")
	}
	const most = 1 << 30
	if info.Size() > most {
		return nil, wrong(metier.LimitReached, "artifact_too_large", path, "check the file; metier does not write files of this size", "%d bytes", info.Size())
	}
	return root.ReadFile(name)
}

// outputName returns <outputId>-<toolId>.json. Characters other than letters, digits, dots,
// underscores and hyphens become underscores. If the result is too long or already taken, part of a
// digest makes it unique.
func outputName(taken map[string]bool, call, tool string) string {
	safe := func(r rune) rune {
		if r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}
	const most = 120 // beside the digest, the folder's temporary names and 255 bytes a name
	name := strings.Map(safe, call+"-"+tool)
	if len(name) > most || taken[strings.ToLower(name)] {
		name = fmt.Sprintf("%.*s-%x", most, name, sha256.Sum256([]byte(call+"\x00"+tool)))
	}
	taken[strings.ToLower(name)] = true
	return name + ".json"
}

// Checkpoint writes only run-state.json, for records whose other artifacts are not needed. A list
// then does not have to read the log.
func (f *Folder) Checkpoint(ctx context.Context) error {
	f.projecting.Lock()
	defer f.projecting.Unlock()
	if f.readOnly {
		return wrong(metier.Invalid, "read_only", f.dir, "open the run for writing", "the run was opened for reading")
	}
	s, err := foldState(ctx, f.id, f.log, f.blobs)
	if err != nil {
		return err
	}
	b, err := printed(s)
	if err != nil {
		return err
	}
	w := &batch{f: f}
	defer w.discard()
	if err := w.add(FileState, pieces{b}); err != nil {
		return err
	}
	return w.commit()
}
