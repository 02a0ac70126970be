package metier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"metier/event"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// skillMax is the largest SKILL.md that is read.
const skillMax = 4 << 20

// Activate puts a skill's instructions into the session as the operator or,
// with source user-explicit, as the user, through the same gate as the model's
// tool; it works where the model has no load tool. An unknown name is
// an error that lists what is available. An active skill is not put in twice
//
func (s *Session) Activate(ctx context.Context, name, source string, arguments ...string) (Activation, error) {
	sk, err := s.Snapshot().Find(name)
	if err != nil {
		return Activation{}, err
	}
	args, err := json.Marshal(map[string]any{"name": sk.Name, "arguments": arguments})
	if err != nil {
		return Activation{}, &Error{Op: "activate", Kind: Internal, Code: "encode", Err: err}
	}
	c := Call{ID: s.cfg.NewID(), Tool: settings.ToolLoadSkill, Args: args, Actor: policy.ByOperator, By: s.cfg.By, Source: source}
	o, err := s.call(ctx, c, operatorLoad{sk, arguments}, settings.ToolLoadSkill)
	if err != nil {
		return Activation{}, err
	}
	if o.Code() != "" {
		return Activation{}, &Error{Op: "activate", Skill: name, Kind: kindOfCode(o.Code()), Code: o.Code(), Err: errors.New(o.Text())}
	}
	st := s.State()
	a, _ := st.active(sk.ID)
	return a, nil
}

func kindOfCode(code string) Kind {
	switch code {
	case policy.CodeSkillDenied, policy.CodeNotNarrowed, policy.CodeUnmediated:
		return Denied
	case "skill_drifted":
		return Drift
	case "skill_not_found":
		return NotFound
	}
	return Unavailable
}

// operatorLoad is the load tool with the skill already found.
type operatorLoad struct {
	skill     Skill
	arguments []string
}

func (operatorLoad) Spec(context.Context, *Session) (Spec, bool) {
	return Spec{Canonical: settings.ToolLoadSkill, Effect: policy.Read}, false
}

func (t operatorLoad) Facts(context.Context, *Session, json.RawMessage) (Facts, error) {
	sub := t.skill.Subject()
	return Facts{Request: policy.Request{Effect: policy.Read, Skill: &sub}}, nil
}

func (t operatorLoad) Invoke(ctx context.Context, x *Scope) (Result, error) {
	act, text, err := x.Activate(ctx, t.skill, t.arguments)
	if err != nil {
		return Failure(err), nil
	}
	return activated(act, text), nil
}

// activate reads SKILL.md whole, freezes its text with its digest and records
// the activation on the scope. The text is what the caller shows the model;
// for a skill that is active already it only says so.
func (s *Session) activate(ctx context.Context, x *Scope, sk Skill, arguments []string) (Activation, string, error) {
	raw, err := s.readSkill(ctx, sk)
	if err != nil {
		return Activation{}, "", err
	}
	sum := Digest(digest.Bytes(raw))
	st := s.State()
	old, was := st.active(sk.ID)
	if was && old.Hash == string(sum) && len(arguments) == 0 {
		return old, fmt.Sprintf("The skill %s is active already; its instructions are above and unchanged (%s).\n", attribute(sk.Name), sum), nil
	}
	changed, err := s.drifted(sk, old, was, sum)
	if err != nil {
		return Activation{}, "", err
	}
	if sk, err = s.index(ctx, x, sk); err != nil {
		return Activation{}, "", err
	}
	if changed && was && s.keepFrozen() {
		x.Record(event.Drifted{SkillID: sk.ID.String(), Path: sk.Head.FileName, Was: old.Hash, Now: string(sum), Choice: "warn"})
		return old, fmt.Sprintf("The skill %s is active already. Its file changed since then; the instructions above stay in force.\n", attribute(sk.Name)), nil
	}
	text, front := s.instructions(raw, sk, sum, arguments, x)
	ref, err := s.putText(ctx, text)
	if err != nil {
		return Activation{}, "", err
	}
	orig, err := s.cfg.Blobs.Put(ctx, "text/markdown; charset=utf-8", raw)
	if err != nil {
		return Activation{}, "", s.fault("activate", err)
	}
	ev := event.Activated{Call: x.call.ID, SkillID: sk.ID.String(), Name: sk.Name, Hash: string(sum), Tree: string(sk.Tree), Source: sk.Tier,
		ActivationSource: x.source(), SessionID: s.cfg.ID, TaskID: x.call.ID, Dir: s.cfg.View.Dir(sk), HostPath: sk.Head.Location,
		AllowedTools: front.AllowedTools, Declared: front.AllowedToolsDeclared, Text: ref, Original: orig, DigestChanged: changed, Role: policy.Context}
	if ev.Dir != "" {
		ev.Path = ev.Dir + "/" + sk.Head.FileName
	}
	x.Record(ev)
	return Activation{Activated: ev, At: s.cfg.Now()}, text, nil
}

// drifted compares the bytes with the ones indexed or activated before. Where
// the setting says fail, it refuses.
func (s *Session) drifted(sk Skill, old Activation, was bool, now Digest) (bool, error) {
	known := string(sk.Digest)
	if was {
		known = old.Hash
	}
	if known == "" || known == string(now) {
		return false, nil
	}
	if s.cfg.Batch && s.cfg.Settings.Activate.DriftBatch == settings.DriftBatchFail ||
		!s.cfg.Batch && s.cfg.Settings.Activate.DriftInteractive == settings.DriftInteractiveFail {
		return true, &Error{Op: "activate", Skill: sk.Name, Path: sk.Head.Location, Kind: Drift, Code: "skill_drifted",
			Hint: "run again to index the new text, or take it with --on-drift warn", Err: fmt.Errorf("the file changed: %s when it was indexed, %s now", known, now)}
	}
	return true, nil
}

// keepFrozen reports whether a changed skill that is active keeps its text.
func (s *Session) keepFrozen() bool {
	if s.cfg.Batch {
		return s.cfg.Settings.Activate.DriftBatch == settings.DriftBatchWarn
	}
	return s.cfg.Settings.Activate.DriftInteractive == settings.DriftInteractiveWarn && s.cfg.Refresh == nil
}

// readSkill reads the whole SKILL.md.
func (s *Session) readSkill(ctx context.Context, sk Skill) ([]byte, error) {
	fail := func(k Kind, code string, err error) error {
		return &Error{Op: "activate", Skill: sk.Name, Path: sk.Head.Location, Kind: k, Code: code, Err: err}
	}
	b, err := s.Snapshot().Open(ctx, sk.ID)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	f, err := b.Open(ctx, firstOf(sk.Head.FileName, "SKILL.md"))
	if err != nil {
		return nil, fail(KindOf(err), "skill_unreadable", err)
	}
	defer f.Close()
	raw, more, err := capped(f, skillMax)
	if err != nil {
		return nil, fail(Unavailable, "skill_unreadable", err)
	}
	if more {
		return nil, fail(LimitReached, "skill_too_large", fmt.Errorf("SKILL.md has more than %d bytes", skillMax))
	}
	return raw, nil
}

// instructions makes the text the model reads, in the form of the setting
// content, wrapped so that it cannot pass for anything else.
func (s *Session) instructions(raw []byte, sk Skill, sum Digest, arguments []string, x *Scope) (string, skillmd.Front) {
	set := s.cfg.Settings.Activate
	doc, _ := skillmd.Parse(raw) // its findings were reported when the skill was indexed
	content := string(raw)
	switch set.Content {
	case settings.ContentBody:
		content = string(doc.Body)
	case settings.ContentMeta:
		content = metaLines(sk, doc.Front) + string(doc.Body)
	}
	content = Expand(content, set.Args, arguments)
	if s.enveloped() && x.call.Actor == policy.ByModel {
		return strings.TrimLeft(content, "\n"), doc.Front // the envelope is JSON: nothing can leave it
	}
	b := block{name: sk.Name, dir: s.cfg.View.Dir(sk), tier: string(sk.Tier), content: content, resources: sk.Resources, most: set.ResourceList}
	if b.dir != "" {
		b.source = b.dir + "/" + sk.Head.FileName
	}
	if set.ShowDigest == settings.ShowDigestYes {
		b.digest = string(sum)
	}
	text, n := b.render()
	if n > 0 {
		x.Record(event.Note{Code: "wrapper-tag-neutralized", On: sk.ID.String(), N: n})
	}
	return text, doc.Front
}

// byLoadTool reports whether the load tool is a way to activate a skill.
func (s *Session) byLoadTool() bool { return s.cfg.Settings.Activate.Ways.Has(settings.WayLoadTool) }

// byReadFile reports whether reading a whole SKILL.md is a way to activate it.
func (s *Session) byReadFile() bool { return s.cfg.Settings.Activate.Ways.Has(settings.WayReadFile) }

// metaLines is what body+meta puts before the body.
func metaLines(sk Skill, f skillmd.Front) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Skill: %s\nDescription: %s\n", oneLine(sk.Name), oneLine(sk.Description))
	if f.Compatibility != "" {
		fmt.Fprintf(&b, "Compatibility: %s\n", oneLine(f.Compatibility))
	}
	if f.License != "" {
		fmt.Fprintf(&b, "License: %s\n", oneLine(f.License))
	}
	return b.String() + "\n"
}

// index returns the skill with its files, as the record knows them if it does,
// else as they are now; the first use is recorded.
func (s *Session) index(ctx context.Context, x *Scope, sk Skill) (Skill, error) {
	st := s.State()
	if ref, ok := st.Indexes[sk.ID.String()]; ok {
		var known RegistrySkill
		b, err := s.cfg.Blobs.Open(ctx, ref)
		if err == nil {
			err = json.Unmarshal(b, &known)
		}
		if err == nil {
			return known.restore(sk), nil
		}
		if ctx.Err() != nil {
			return sk, ctx.Err()
		}
		s.cfg.Logger.Warn("the recorded index of a skill cannot be read; its files are indexed again", "skill", sk.ID.String(), "err", err)
	}
	indexedNow := !sk.Indexed
	sk, err := s.Snapshot().Index(ctx, sk)
	if err != nil || !indexedNow {
		return sk, err
	}
	ref, err := s.putJSON(ctx, s.cfg.View.registrySkill(sk))
	if err != nil {
		return sk, err
	}
	x.Record(event.ResourcesIndexed{SkillID: sk.ID.String(), Digest: string(sk.Digest), Tree: string(sk.Tree), Files: len(sk.Resources), Registry: ref})
	return sk, nil
}

// restore fills a skill with the files the record knows.
func (r RegistrySkill) restore(sk Skill) Skill {
	sk.Indexed, sk.Digest, sk.Tree, sk.Resources = true, Digest(r.Digest), Digest(r.Tree), nil
	for _, f := range r.Resources {
		res := Resource{Kind: f.Kind, File: File{Path: f.Path, Size: f.SizeBytes, Digest: Digest(f.Digest), Text: f.ContentKind == "text", Location: f.ResourcePath}}
		if f.Script != nil {
			res.Exec, res.Shebang, res.Runtime = f.Script.Executable, f.Script.Shebang, f.Script.Runtime
		}
		sk.Resources = append(sk.Resources, res)
	}
	return sk
}
