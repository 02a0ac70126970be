package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/event"
	"metier/registry"
	"metier/settings"
)

// SkillUse counts the uses of one skill in the runs of a folder.
type SkillUse struct {
	ID          string `json:"id"`
	Name        string `json:"name"`   // as it was last used
	Digest      string `json:"digest"` // of the SKILL.md that was last activated; "" if none was
	Versions    int    `json:"versions"`
	Runs        int    `json:"runs"`
	Activations int    `json:"activations"`
	Failures    int    `json:"failures"` // calls that were to load it and did not
	Reads       int    `json:"reads"`
	ReadErrors  int    `json:"readErrors"`
	Scripts     int    `json:"scripts"`        // that ran, however they ended
	ScriptFails int    `json:"scriptFailures"` // calls that ended otherwise than with exit code 0, refused ones included
	Uses        int    `json:"uses"`           // activations, reads and script runs: what it was there for
	FirstUsed   string `json:"firstUsed"`
	LastUsed    string `json:"lastUsed"`
}

// Stats is the output of `runs stats` for a folder of runs, with skills sorted by activations, then
// by ID. Unknown counts failed loads and script calls with a name that no skill of their run had.
type Stats struct {
	Skills   []SkillUse  `json:"skills"`
	Runs     int         `json:"runs"` // that were read
	Unknown  int         `json:"unknown"`
	Omitted  int         `json:"omitted"` // older runs past the limit, not read
	Problems []Uncounted `json:"problems"`
}

// Uncounted is why a run, or the end of its log, was not counted.
type Uncounted struct {
	Run    string `json:"run"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// StatsOptions are the options of Count. The zero value counts everything.
type StatsOptions struct {
	Skill string    // only the skill of this ID or name
	Since time.Time // only what happened at or after it
	Limit int       // most runs to read, the newest by ID; default 10,000
	// Options are those of [Look]. With a StateDir, entries that no recorded head covers are not
	// counted, nor are runs that lost entries.
	Options *Options
	// Progress, if set, is called after each run with the number of runs read and the total.
	Progress func(done, all int)
}

// Count folds the records of all runs below root. It does not use their artifacts. A run that
// cannot be read is reported as a Problem, not an error. If root does not exist, there are no runs.
func Count(ctx context.Context, root string, o StatsOptions) (Stats, error) {
	t := &tally{o: o, skills: map[string]*counted{}}
	out := Stats{Skills: []SkillUse{}, Problems: []Uncounted{}}
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, fault("list", root, err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name()[0] == '.' })
	limit := cmp.Or(max(o.Limit, 0), maxRuns)
	if out.Omitted = max(len(entries)-limit, 0); out.Omitted > 0 {
		entries = entries[out.Omitted:] // ids begin with the time of their run
	}
	for i, e := range entries {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		t.problem = nil
		read, err := t.run(ctx, root, e.Name(), e.Name(), o.Options)
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case err != nil:
			out.Problems = append(out.Problems, Uncounted{e.Name(), cmp.Or(metier.CodeOf(err), "run_unreadable"), err.Error()})
		case read:
			out.Runs++
		}
		if p := t.problem; p != nil {
			out.Problems = append(out.Problems, Uncounted{e.Name(), p.Code, p.Detail})
		}
		if o.Progress != nil {
			o.Progress(i+1, len(entries))
		}
	}
	for _, c := range t.skills {
		if o.Skill == "" || o.Skill == c.ID || strings.EqualFold(o.Skill, c.Name) {
			c.Versions = len(c.digests)
			out.Skills = append(out.Skills, c.SkillUse)
		}
	}
	slices.SortFunc(out.Skills, func(a, b SkillUse) int {
		return cmp.Or(cmp.Compare(b.Activations, a.Activations), cmp.Compare(b.Reads, a.Reads), strings.Compare(a.ID, b.ID))
	})
	out.Unknown = t.unknown
	return out, nil
}

// tally adds up the runs of a folder.
type tally struct {
	o       StatsOptions
	skills  map[string]*counted
	unknown int
	problem *Problem // of a log that was counted in part, in the current run
}

type counted struct {
	SkillUse
	run     string // the last one that was counted
	digests map[string]bool
	last    time.Time
	first   time.Time
}

// run adds one run and its children, counted as part of the run named as. It reports false if the
// run had no activity since the start time.
func (t *tally) run(ctx context.Context, root, name, as string, o *Options) (read bool, err error) {
	f, err := Look(root, name, o)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := f.VerifyHead(ctx); err != nil {
		return false, err
	}
	if f.loose != nil {
		p := f.loose.problem()
		t.problem = &p
	}
	h, err := recall(ctx, name, f.log)
	if err != nil {
		return false, err
	}
	if h.ended().Before(t.o.Since) {
		return false, nil
	}
	failed, err := t.failures(ctx, h, f)
	if err != nil {
		return false, err
	}
	for call, n := range failed {
		switch {
		case call.skill == "":
			t.unknown += n
		case call.tool == settings.ToolRunSkillScript:
			t.of(call.skill, as).ScriptFails += n
		default:
			t.of(call.skill, as).Failures += n
		}
	}
	for _, fact := range h.facts {
		if !fact.At.Before(t.o.Since) {
			t.count(fact, as)
		}
	}
	children, err := os.ReadDir(f.Children())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, fault("list", f.Children(), err)
	}
	child := f.opt
	child.Top, child.RequireHead = f.Top(), f.heads != nil && !f.noHead
	for _, c := range children {
		if _, err := t.run(ctx, f.Children(), c.Name(), as, &child); err != nil {
			return true, fmt.Errorf("its subagent %s: %w", c.Name(), err)
		}
	}
	return true, nil
}

// of returns a skill's counters, for a run.
func (t *tally) of(skill, run string) *counted {
	c := t.skills[skill]
	if c == nil {
		c = &counted{SkillUse: SkillUse{ID: skill, Name: skill}, digests: map[string]bool{}}
		if _, path, ok := strings.Cut(skill, ":"); ok {
			c.Name = path[strings.LastIndexByte(path, '/')+1:]
		}
		t.skills[skill] = c
	}
	if c.run != run {
		c.run = run
		c.Runs++
	}
	return c
}

func (t *tally) count(f fact, run string) {
	switch e := f.event.(type) {
	case event.SkillActivated:
		c := t.of(e.SkillID, run)
		c.Activations++
		c.Uses++
		c.digests[e.Hash] = true
		if !f.At.Before(c.last) {
			c.Digest = e.Hash
		}
		c.used(f.At, e.Name)
	case event.ResourceRead:
		switch {
		case e.SkillID == "":
		case e.Status == "error":
			t.of(e.SkillID, run).ReadErrors++
		default:
			c := t.of(e.SkillID, run)
			c.Reads++
			c.Uses++
			c.used(f.At, e.Name)
		}
	case event.ScriptExecuted:
		if e.Status != "executed" {
			return
		}
		c := t.of(e.SkillID, run)
		c.Scripts++
		c.Uses++
		c.used(f.At, e.Name)
	}
}

func (c *counted) used(at time.Time, name string) {
	if !at.Before(c.last) {
		c.last, c.LastUsed, c.Name = at, stamp(at), cmp.Or(name, c.Name)
	}
	if c.FirstUsed == "" || at.Before(c.first) {
		c.first, c.FirstUsed = at, stamp(at)
	}
}

// attempt identifies a kind of failed call for one skill.
type attempt struct{ tool, skill string }

// failures counts the failed calls of a run that tried to load a skill or run its script, by tool
// and skill ID. The ID is "" if the name matches no skill, or several. The registry is read only if
// there is such a call.
func (t *tally) failures(ctx context.Context, h *history, f *Folder) (map[attempt]int, error) {
	out := map[attempt]int{}
	var p *projector
	for _, fact := range h.facts {
		e, ok := fact.event.(event.ToolResult)
		if !ok || e.Code == "" || e.Tool != settings.ToolLoadSkill && e.Tool != settings.ToolRunSkillScript || fact.At.Before(t.o.Since) {
			continue
		}
		if p == nil {
			var err error
			if p, err = newProjector(ctx, h, f.blobs, false); err != nil {
				return nil, err
			}
		}
		var args struct{ Name, Skill string }
		p.args(e.ID, &args)
		if p.c.err != nil {
			return nil, p.c.err
		}
		out[attempt{e.Tool, p.called(cmp.Or(p.decided[e.ID].Skill, args.Name, args.Skill))}]++
	}
	return out, nil
}

// called returns the ID of the skill with this ID or name. Usable skills take precedence over those
// that were found but could not be used. It returns "" if there is no match or several.
func (p *projector) called(what string) string {
	if _, ok := p.skills[what]; ok {
		return what
	}
	var usable, others []registry.Other
	for _, s := range p.skills {
		usable = append(usable, registry.Other{ID: s.ID, Name: s.Name})
	}
	if err := json.Unmarshal(p.reg.Others, &others); err != nil {
		others = nil // of another version: then no skill has the name
	}
	for _, list := range [][]registry.Other{usable, others} {
		list = slices.DeleteFunc(list, func(s registry.Other) bool { return s.ID != what && !strings.EqualFold(s.Name, what) })
		if len(list) > 0 {
			if len(list) > 1 {
				return ""
			}
			return list[0].ID
		}
	}
	return ""
}
