package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"metier/event"
	"metier/registry"
)

// agreement checks what a log records about the use of skills against the skill list in the same
// log. The hash chain proves that no entry was changed, but not that the entries are consistent
// with each other.
type agreement struct {
	p      *projector
	listed map[string]registry.Skill // as the newest list has them; nil: no list, or its content is gone
	used   map[string]registry.Skill // with files that were indexed when they were first used
	active map[string]bool
	found  []Problem
}

// disagreements returns one problem for each field of a skill artifact that is inconsistent with
// skill-registry.json as of that time.
func (p *projector) disagreements() ([]Problem, error) {
	a := &agreement{p: p, used: map[string]registry.Skill{}, active: map[string]bool{}}
	for _, f := range p.h.facts {
		switch e := f.event.(type) {
		case event.SkillsDiscovered:
			a.list(e)
		case event.ResourcesIndexed:
			a.index(f.Seq, e)
		case event.SkillActivated:
			a.activated(f.Seq, e)
		case event.ResourceRead:
			a.read(f.Seq, e)
		case event.ScriptExecuted:
			a.script(f.Seq, e)
		case event.Staged:
			if w, _ := a.skill(e.SkillID); w.Indexed && e.Tree != w.Tree {
				a.note(f.Seq, FileRegistry, w.ID+".tree", w.Tree, e.Tree+" was staged")
			}
		}
	}
	return a.found, p.c.err
}

// note adds a problem: the value of a field in a file is inconsistent with another value.
func (a *agreement) note(seq uint64, file, field string, has, other any) {
	a.found = append(a.found, Problem{Code: CodeDisagree, Seq: seq, On: file, Detail: fmt.Sprintf("%s is %v, but %v", field, has, other)})
}

func (a *agreement) list(e event.SkillsDiscovered) {
	a.listed = nil
	b, _ := a.p.c.load(e.Registry)
	if l, err := registry.Read(b); err == nil { // a fault is reported elsewhere
		a.listed = l.ByID()
	}
}

func (a *agreement) index(seq uint64, e event.ResourcesIndexed) {
	var s registry.Skill
	if b, _ := a.p.c.load(e.Registry); json.Unmarshal(b, &s) != nil {
		return
	}
	for _, x := range []struct{ field, has, said string }{{"id", s.ID, e.SkillID}, {"digest", s.Digest, e.Digest}, {"tree", s.Tree, e.Tree},
		{"resources", fmt.Sprint(len(s.Resources)), fmt.Sprint(e.Files)}} {
		if x.has != x.said {
			a.note(seq, FileRegistry, e.SkillID+"."+x.field, x.has, "the log says "+x.said)
		}
	}
	s.Indexed = true
	a.used[e.SkillID] = s
}

// skill returns a skill, with its files if they are known.
func (a *agreement) skill(id string) (registry.Skill, bool) {
	w, ok := a.listed[id]
	if u, used := a.used[id]; used && !w.Indexed {
		return u, true
	}
	return w, ok
}

func (a *agreement) activated(seq uint64, e event.SkillActivated) {
	w, known := a.skill(e.SkillID)
	at := func(field string) string { return fmt.Sprintf("activations[outputId=%s].%s", e.Call, field) }
	first := !a.active[e.SkillID]
	a.active[e.SkillID] = true
	switch {
	case a.listed == nil:
		return
	case !known && strings.EqualFold(path.Base(slashed(e.HostPath)), "SKILL.md"):
		a.note(seq, FileActivations, at("skillId"), e.SkillID, FileRegistry+" does not list it")
		return
	}
	before := a.listed[e.SkillID].Digest
	if before == "" {
		before = w.Digest
	}
	if first && before != "" && e.DigestChanged != (before != e.Hash) {
		a.note(seq, FileActivations, at("digest"), e.Hash, fmt.Sprintf("%s has %s, and digestChanged is %t", FileRegistry, before, e.DigestChanged))
	}
	if w.Indexed && e.Tree != "" && e.Tree != w.Tree {
		a.note(seq, FileActivations, at("tree"), e.Tree, FileRegistry+" has "+w.Tree)
	}
}

func slashed(p string) string { return strings.ReplaceAll(p, `\`, "/") }

func (a *agreement) read(seq uint64, e event.ResourceRead) {
	at := func(field string) string { return fmt.Sprintf("reads[outputId=%s].%s", e.Call, field) }
	if e.RegistryDigest != "" && e.ObservedDigest != "" && (e.Matches == nil || *e.Matches != (e.RegistryDigest == e.ObservedDigest)) {
		says := "null"
		if e.Matches != nil {
			says = fmt.Sprint(*e.Matches)
		}
		a.note(seq, FileReads, at("digestMatchesRegistry"), says, fmt.Sprintf("registryDigest is %s and observedDigest %s", e.RegistryDigest, e.ObservedDigest))
	}
	w, known := a.skill(e.SkillID)
	if a.listed == nil || e.SkillID == "" {
		return
	}
	if !known && e.RegistryDigest != "" {
		a.note(seq, FileReads, at("skillId"), e.SkillID, FileRegistry+" does not list it")
		return
	}
	file, there := w.File(path.Clean(e.Path))
	switch {
	case !w.Indexed:
	case e.Late && there:
		a.note(seq, FileReads, at("late"), true, FileRegistry+" has the file")
	case e.RegistryDigest == "":
	case !there:
		a.note(seq, FileReads, at("registryDigest"), e.RegistryDigest, FileRegistry+" does not have the file "+e.Path)
	case e.RegistryDigest != file.Digest:
		a.note(seq, FileReads, at("registryDigest"), e.RegistryDigest, FileRegistry+" has "+file.Digest)
	case e.RegistrySize != nil && *e.RegistrySize != file.SizeBytes:
		a.note(seq, FileReads, at("registrySizeBytes"), *e.RegistrySize, fmt.Sprintf("%s has %d", FileRegistry, file.SizeBytes))
	}
}

func (a *agreement) script(seq uint64, e event.ScriptExecuted) {
	at := func(field string) string { return fmt.Sprintf("executions[outputId=%s].%s", e.Call, field) }
	if e.Status == "executed" && e.RegistryDigest != "" && e.ObservedDigest != e.RegistryDigest {
		a.note(seq, FileScripts, at("observedDigest"), e.ObservedDigest, "the script ran and registryDigest is "+e.RegistryDigest)
	}
	w, known := a.skill(e.SkillID)
	if a.listed == nil || e.SkillID == "" || e.RegistryDigest == "" {
		return
	}
	file, there := w.File(e.Path)
	switch {
	case !known:
		a.note(seq, FileScripts, at("skillId"), e.SkillID, FileRegistry+" does not list it")
	case !w.Indexed:
	case !there:
		a.note(seq, FileScripts, at("registryDigest"), e.RegistryDigest, FileRegistry+" does not have the file "+e.Path)
	case e.RegistryDigest != file.Digest:
		a.note(seq, FileScripts, at("registryDigest"), e.RegistryDigest, FileRegistry+" has "+file.Digest)
	case e.Tree != "" && e.Tree != w.Tree:
		a.note(seq, FileScripts, at("tree"), e.Tree, FileRegistry+" has "+w.Tree)
	}
}

// difference names the first field in which an artifact differs from what the log produces, and
// both values.
func difference(want, got []byte) string {
	read := func(b []byte) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err = d.Decode(&v); err != nil {
			return v, err
		}
		if _, after := d.Token(); after != io.EOF {
			return v, errors.New("there is more behind the value")
		}
		return v, nil
	}
	w, werr := read(want)
	g, gerr := read(got)
	if gerr != nil {
		return "it is not JSON: " + gerr.Error()
	}
	if werr != nil {
		return ""
	}
	if field, has, says, differs := differs("", w, g); differs {
		return fmt.Sprintf("%s is %s, the log says %s", strings.TrimPrefix(field, "."), brief(has), brief(says))
	}
	return "only spaces, line ends or the order of fields differ"
}

// byUse orders names of fields: times and hashes, which differ if anything else does, are last.
func byUse(a, b string) int {
	last := func(s string) int {
		return slices.Index([]string{"generatedAt", "updatedAt", "endedAt", "durationMs", "hash"}, s)
	}
	return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a, b))
}

// differs compares two JSON values, visiting fields in the order of byUse.
func differs(at string, want, got any) (field string, has, says any, is bool) {
	switch w := want.(type) {
	case map[string]any:
		if g, same := got.(map[string]any); same {
			all := maps.Clone(g)
			maps.Copy(all, w)
			for _, k := range slices.SortedFunc(maps.Keys(all), byUse) {
				if field, has, says, is = differs(at+"."+k, w[k], g[k]); is {
					break
				}
			}
			return field, has, says, is
		}
	case []any:
		if g, same := got.([]any); same {
			n := max(len(w), len(g))
			w, g = append(w, make([]any, n-len(w))...), append(g, make([]any, n-len(g))...)
			for i := range w {
				if field, has, says, is = differs(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); is {
					break
				}
			}
			return field, has, says, is
		}
	}
	return at, got, want, !reflect.DeepEqual(want, got)
}

// brief returns a JSON value cut to at most 120 bytes.
func brief(v any) string {
	b, err := compact(v)
	const most = 120
	switch {
	case err != nil:
		return "unprintable"
	case len(b) > most:
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}
