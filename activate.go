package metier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"metier/event"
	"metier/internal/arguments"
	"metier/internal/digest"
	"metier/internal/injection"
	"metier/internal/promptescape"
	"metier/internal/termtext"
	"metier/policy"
	"metier/record"
	"metier/registry"
	"metier/settings"
	"metier/skillmd"
)

// skillMax is the largest SKILL.md that is read.
const skillMax = 4 << 20

// Activate puts a skill's instructions into the session as the operator or,
// with source user-explicit, as the user, through the same gate as the model's
// tool; it works where the model has no load tool. An unknown name is
// an error that lists what is available. An active skill is not put in twice.
func (s *Session) Activate(ctx context.Context, name, source string, arguments ...string) (Activation, error) {
	sk, err := s.Snapshot().entry(name)
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
		return Activation{}, o.activation(name)
	}
	a, _ := s.active(sk.ID)
	return a, nil
}

const hintDenied = "the configuration, a flag, a policy file or the workspace's metier.yaml denies it"

// activation returns the error of an activation that failed or was refused.
func (o Observation) activation(name string) error {
	e, known := errors.AsType[*Error](o.r.err)
	if known && e.Op != "" {
		return e
	}
	out := &Error{Op: "activate", Skill: name, Kind: Unavailable, Code: o.Code(), Err: errors.New(o.Text())}
	if known {
		out.Kind = e.Kind
	}
	if out.Code == policy.CodeSkillDenied {
		out.Hint = hintDenied
	}
	return out
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

func (t operatorLoad) Invoke(ctx context.Context, x *ToolContext) (Result, error) {
	act, text, err := x.Activate(ctx, t.skill, t.arguments)
	if err != nil {
		return Failure(err), nil
	}
	return activated(act, text), nil
}

// activate reads SKILL.md whole, freezes its text with its digest and records
// the activation on the scope. The text is what the caller shows the model;
// for a skill that is active already it only says so, but see Config.ToolsOnly.
func (s *Session) activate(ctx context.Context, x *ToolContext, sk Skill, arguments []string) (Activation, string, error) {
	if err := s.refused(sk); err != nil {
		return Activation{}, "", err
	}
	old, was := s.active(sk.ID)
	bound := s.bound(sk)
	known, err := sk.Digest, error(nil)
	if !was || bound {
		if sk, err = s.indexFor(ctx, x, sk); err != nil {
			return Activation{}, "", err
		}
		if err := x.Approved(sk); err != nil {
			return Activation{}, "", err
		}
		if known == "" || bound {
			known = sk.Digest
		}
	}
	raw, err := s.readSkill(ctx, sk)
	if err != nil {
		return Activation{}, "", err
	}
	sum := Digest(digest.Bytes(raw))
	asked := bound && sum == known // these files, and no others
	if was {
		known = Digest(old.Hash)
		anew, err := asked && string(sk.Tree) != old.Tree, error(nil)
		if !bound {
			anew, err = s.renewed(ctx, x, sk, old)
		}
		if err != nil {
			return Activation{}, "", err
		}
		if known == sum && len(arguments) == 0 && !anew {
			return s.again(ctx, x, sk, old, fmt.Sprintf("The skill %s is active already; its instructions are above and unchanged%s.\n", promptescape.Attribute(sk.Name), s.shownDigest(" (", sum, ")")))
		}
		if sk, err = s.indexFor(ctx, x, sk); err != nil {
			return Activation{}, "", err
		}
	}
	changed := known != "" && known != sum
	if changed {
		sk = sk.Changed()
		keep, err := s.drift(x, sk, known, sum, was, asked)
		if err != nil {
			return Activation{}, "", err
		}
		if keep {
			return s.again(ctx, x, sk, old, fmt.Sprintf("The skill %s is active already. Its file changed since then; the instructions above stay in force.\n", promptescape.Attribute(sk.Name)))
		}
	}
	if !was && len(arguments) == 0 {
		x.loads = append(x.loads, sk.ID.String())
	}
	return s.freeze(ctx, x, sk, raw, sum, arguments, changed)
}

// again answers a second activation: the text is in the conversation, unless
// that is kept elsewhere and may have lost it.
func (s *Session) again(ctx context.Context, x *ToolContext, sk Skill, old Activation, text string) (Activation, string, error) {
	if !s.cfg.ToolsOnly {
		return old, text, nil
	}
	ref, bare := old.Text, s.bare(x) && old.Original.Digest != ""
	if bare {
		ref = old.Original
	}
	b, err := s.cfg.Blobs.Open(ctx, ref)
	if err != nil {
		return Activation{}, "", s.fault("activate", err)
	}
	if !bare {
		return old, string(b), nil
	}
	_, reply, _, err := s.instructions(b, sk, Digest(old.Hash), nil, x)
	return old, reply, err
}

// freeze records an activation with its text.
func (s *Session) freeze(ctx context.Context, x *ToolContext, sk Skill, raw []byte, sum Digest, arguments []string, changed bool) (Activation, string, error) {
	block, reply, front, err := s.instructions(raw, sk, sum, arguments, x)
	if err != nil {
		return Activation{}, "", err
	}
	scan := string(raw)
	if injection.Orders(injection.Find(block)) && !injection.Orders(injection.Find(scan)) {
		scan = block // escapes in the frontmatter, or arguments, hid it
	}
	if err := s.suspected(x, sk, firstOf(sk.Head.FileName, "SKILL.md"), scan, 0); err != nil {
		return Activation{}, "", err
	}
	for _, name := range s.order {
		if t, ok := s.tools[name].(Stager); ok && s.granted(name) {
			if err := t.Stage(ctx, x, sk); err != nil {
				return Activation{}, "", err
			}
			break // one place serves all tools that run what is there
		}
	}
	ref, err := s.putText(ctx, block)
	if err != nil {
		return Activation{}, "", err
	}
	orig, err := s.cfg.Blobs.Put(ctx, "text/markdown; charset=utf-8", raw)
	if err != nil {
		return Activation{}, "", s.fault("activate", err)
	}
	ev := event.SkillActivated{Call: x.call.ID, SkillID: sk.ID.String(), Name: sk.Name, Hash: string(sum), Tree: string(sk.Tree), Source: sk.Tier,
		ActivationSource: x.source(), SessionID: s.cfg.ID, TaskID: x.call.ID, Dir: s.cfg.View.Dir(sk), HostPath: sk.Head.Location,
		AllowedTools: front.AllowedTools, Declared: front.AllowedToolsDeclared, Text: ref, Original: orig, DigestChanged: changed, Role: policy.Context}
	if ev.Dir != "" {
		ev.Path = ev.Dir + "/" + sk.Head.FileName
	}
	x.Record(ev)
	return Activation{SkillActivated: ev, At: s.cfg.Now()}, reply, nil
}

// suspected records where a text that is about to be delivered reads like an
// injection. Where the setting keeps such text of the skill's tier from
// the model it is an error; elsewhere it goes on. from is the place of the
// text in its file.
func (s *Session) suspected(x *ToolContext, sk Skill, file, text string, from int) error {
	found := injection.Find(text)
	if len(found) == 0 {
		return nil
	}
	blocked := BlocksInjection(s.cfg.Settings.Activate.Injection, sk.Tier) && injection.Orders(found)
	for _, f := range found {
		x.Record(event.SkillSuspected{Call: x.call.ID, SkillID: sk.ID.String(), Name: sk.Name, Source: sk.Tier.Or(), Path: file, Kind: f.Kind, Offset: from + f.Offset, Blocked: blocked && !f.Mentioned})
	}
	if !blocked {
		return nil
	}
	order := found[slices.IndexFunc(found, func(f injection.Finding) bool { return !f.Mentioned })]
	return &Error{Op: "use", Skill: sk.Name, Path: file, Kind: Denied, Code: "injection_blocked",
		Hint: "a person has to read it; if it is honest, its root can be given a tier that is trusted, or the operator can set injection to event",
		Err:  fmt.Errorf("the text at byte %d reads like an injection, and it comes from the tier %s", from+order.Offset, sk.Tier.Or())}
}

// drift records that the bytes of a skill are not the ones that were indexed or
// activated, and decides: refused, its frozen text kept, or the new text taken.
// asked reports whether an ask rule's question was about the new bytes. If such a rule
// covers the skill, no other new bytes are taken.
func (s *Session) drift(x *ToolContext, sk Skill, known, now Digest, was, asked bool) (keep bool, err error) {
	choice, bound := s.cfg.Settings.Activate.OnDrift(s.cfg.Batch), s.bound(sk)
	if bound {
		choice = choice.Bound(asked, was)
	}
	x.Record(event.SkillDrifted{SkillID: sk.ID.String(), Path: sk.Head.FileName, Was: string(known), Now: string(now), Choice: string(choice)})
	switch {
	case bound && choice.Ends():
		return false, drifted("activate", sk, sk.Head.FileName)
	case choice.Ends():
		err := errors.New("the file changed since it was indexed")
		if s.cfg.Settings.Activate.ShowDigest == settings.ShowDigestYes {
			err = fmt.Errorf("the file changed: %s before, %s now", known, now)
		}
		return false, &Error{Op: "activate", Skill: sk.Name, Path: sk.Head.FileName, Kind: Drift, Code: "skill_drifted",
			Hint: "start a new run to index the new text, or accept it with ResumeOptions.OnDrift warn", Err: err}
	}
	return was && choice.Keeps(), nil
}

// bound reports whether only the indexed bytes of a skill may be delivered, whatever the settings for
// drift are: an ask rule covers the skill, and its question shows their digests.
func (s *Session) bound(sk Skill) bool { return sk.Effect(&s.cfg.Grants) == policy.RuleAsk }

// drifted is the error of a changed file of a skill that is bound.
func drifted(op string, sk Skill, path string) error {
	return &Error{Op: op, Skill: sk.Name, Path: path, Kind: Drift, Code: "skill_drifted",
		Hint: "start another turn or a new run, which asks about the current files", Err: errors.New("an ask rule covers the skill, and the file is not the one that the question is about")}
}

// Approved returns an error if a rule denies the skill, or if an ask rule covers it, and its question
// was about other files. The skill has its files.
func (x *ToolContext) Approved(sk Skill) error {
	if err := x.s.refused(sk); err != nil {
		return err
	}
	if x.call.Actor == policy.ByOperator || !x.s.bound(sk) {
		return nil
	}
	sub := sk.Subject()
	if a, was := x.s.active(sk.ID); was && sub.VersionOf(a.Subject()) {
		return nil
	}
	if of := x.request.Skill; of != nil && sub.VersionOf(*of) || slices.ContainsFunc(x.request.Gives, sub.VersionOf) {
		return nil
	}
	return drifted("use", sk, sk.Head.FileName)
}

// renewed reports whether other files of an active skill than its SKILL.md are
// taken anew: they changed, and that is what the operator chose.
func (s *Session) renewed(ctx context.Context, x *ToolContext, sk Skill, old Activation) (bool, error) {
	if old.Tree == "" || !s.cfg.Settings.Activate.OnDrift(s.cfg.Batch).Reloads() {
		return false, nil
	}
	sk, err := s.index(ctx, x, sk)
	return err == nil && string(sk.Tree) != old.Tree, err
}

// refused repeats the operator's deny for the skill that is really used: the
// name may mean another one than when the call was judged.
func (s *Session) refused(sk Skill) error {
	if !s.denied(&sk) {
		return nil
	}
	return &Error{Op: "use", Skill: sk.Name, Kind: Denied, Code: policy.CodeSkillDenied, Hint: hintDenied, Err: errors.New("the operator denied this skill")}
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
		if KindOf(err) == Drift { // the source compared, and says how
			return nil, err
		}
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

// bare reports whether a call returns instructions without the element around
// them: the setting tool_reply asks for that, or for a JSON object that nothing
// can leave.
func (s *Session) bare(x *ToolContext) bool {
	return x.call.Actor == policy.ByModel && (s.enveloped() || s.PlainReplies())
}

// instructions makes the text the model reads, in the form of the setting
// content. text is wrapped so that it cannot pass for anything else; reply is
// what the call returns.
func (s *Session) instructions(raw []byte, sk Skill, sum Digest, args []string, x *ToolContext) (text, reply string, front skillmd.Front, err error) {
	set := s.cfg.Settings.Activate
	doc, diags := skillmd.Parse(raw)
	if i := slices.IndexFunc(diags, func(d Diagnostic) bool { return unreadable(d, s.cfg.Settings.Parse) }); i >= 0 && sk.Head.Front.Present {
		return "", "", doc.Front, &Error{Op: "activate", Skill: sk.Name, Path: sk.Head.Location, Kind: Invalid, Code: "skill_broken",
			Hint: "repair the frontmatter", Err: errors.New("the file changed and cannot be read any more: " + diags[i].Detail)}
	}
	content := string(raw)
	switch set.Content {
	case settings.ContentBody:
		content = string(doc.Body)
	case settings.ContentMeta:
		content = metaLines(sk, doc.Front) + string(doc.Body)
	}
	fits := true
	if set.Args != settings.ArgsNone {
		content, fits = arguments.Expand(content, args, set.Args == settings.ArgsClaude, 2*skillMax)
	}
	if !fits {
		return "", "", doc.Front, &Error{Op: "activate", Skill: sk.Name, Kind: LimitReached, Code: "skill_too_large",
			Err: fmt.Errorf("with its arguments the text has more than %d bytes", 2*skillMax)}
	}
	w := promptescape.Skill{Name: sk.Name, ThirdParty: sk.Tier.Or() == policy.ThirdParty, Content: content, Digest: s.shownDigest("", sum, "")}
	if sk.Head.Kind != KindGroup { // what lies beside a group are entries of their own
		listed := min(set.ResourceList, len(sk.Resources))
		for _, r := range sk.Resources[:listed] {
			w.Files = append(w.Files, promptescape.File{Path: r.Path, Kind: string(r.Kind), Content: contentKind(r.Text), Size: r.Size, Digest: string(r.Digest)})
		}
		if w.Dir = s.cfg.View.Dir(sk); listed > 0 {
			w.More = len(sk.Resources) - listed
		}
	}
	if w.Dir != "" {
		w.Source = w.Dir + "/" + sk.Head.FileName
	}
	text, n := w.Text()
	if n > 0 {
		x.Record(event.Note{Code: "wrapper-tag-neutralized", On: sk.ID.String(), N: n})
	}
	if s.bare(x) {
		return text, content, doc.Front, nil
	}
	return text, text, doc.Front, nil
}

// shownDigest is a digest for the model, or nothing where the setting keeps
// digests out of its text.
func (s *Session) shownDigest(before string, d Digest, after string) string {
	if s.cfg.Settings.Activate.ShowDigest != settings.ShowDigestYes {
		return ""
	}
	return before + string(d) + after
}

// byReadFile reports whether reading a whole SKILL.md is a way to activate it.
func (s *Session) byReadFile() bool { return s.cfg.Settings.Activate.ByReading() }

// metaLines is what body+meta puts before the body.
func metaLines(sk Skill, f skillmd.Front) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Skill: %s\nDescription: %s\n", termtext.Line(sk.Name), termtext.Line(sk.Description))
	if f.Compatibility != "" {
		fmt.Fprintf(&b, "Compatibility: %s\n", termtext.Line(f.Compatibility))
	}
	if f.License != "" {
		fmt.Fprintf(&b, "License: %s\n", termtext.Line(f.License))
	}
	return b.String() + "\n"
}

// indexFor indexes a skill's files when an activation needs them: to know what
// may be read, to list them, or, for a skill of a server, to know which version
// an answer covers. Elsewhere no file is opened before somebody asks for it.
func (s *Session) indexFor(ctx context.Context, x *ToolContext, sk Skill) (Skill, error) {
	if !s.cfg.Settings.Read.OnlyIndexed() && s.cfg.Settings.Activate.ResourceList == 0 && !s.bound(sk) && !sk.Subject().FromServer() {
		return sk, nil
	}
	return s.index(ctx, x, sk)
}

// index returns the skill with its files, as the record knows them if it does,
// else as they are now; the first use is recorded, where there is a scope. After Refresh the files are
// the ones of the new snapshot.
func (s *Session) index(ctx context.Context, x *ToolContext, sk Skill) (Skill, error) {
	id := sk.ID
	s.mu.Lock()
	known, ok := s.files[id]
	ref, recorded := s.state.Indexes[id.String()]
	fresh := s.fresh
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	if recorded && !fresh {
		full, err := s.restored(ctx, sk, ref)
		if err == nil {
			if full.Tree != sk.Tree {
				full = full.Changed()
			}
			s.keep(id, full)
			return full, nil
		}
		if ctx.Err() != nil {
			return sk, ctx.Err()
		}
		s.cfg.Logger.Warn("the recorded index of a skill cannot be read; its files are indexed again", "skill", id.String(), "err", err)
	}
	atStart := sk.Indexed
	sk, err := s.Snapshot().Index(ctx, sk)
	if err != nil || atStart || x == nil {
		return sk, err
	}
	now, err := s.putJSON(ctx, s.cfg.View.registrySkill(sk))
	if err != nil {
		return sk, err
	}
	if recorded && now.Digest == ref.Digest {
		s.keep(id, sk)
		return sk, nil
	}
	e := event.ResourcesIndexed{SkillID: id.String(), Digest: string(sk.Digest), Tree: string(sk.Tree), Files: len(sk.Resources), Registry: now}
	if !slices.Contains(x.events, event.Event(e)) { // a call may ask more than once
		x.Record(e)
	}
	return sk, nil
}

func (s *Session) keep(id ID, sk Skill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[id] = sk
}

func (s *Session) restored(ctx context.Context, sk Skill, ref record.Ref) (Skill, error) {
	var known registry.Skill
	b, err := s.cfg.Blobs.Open(ctx, ref)
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	return restore(sk, known), err
}

// restore fills a skill with the files the record knows.
func restore(sk Skill, r registry.Skill) Skill {
	sk.Indexed, sk.Digest, sk.Tree, sk.Resources = true, Digest(r.Digest), Digest(r.Tree), nil
	for _, f := range r.Resources {
		res := Resource{Kind: ResourceKind(f.Kind), File: File{Path: f.Path, Size: f.SizeBytes, Digest: Digest(f.Digest), Text: f.ContentKind == "text", Location: f.ResourcePath}}
		if f.Script != nil {
			res.Exec, res.Shebang, res.Runtime = f.Script.Executable, f.Script.Shebang, f.Script.Runtime
		}
		sk.Resources = append(sk.Resources, res)
	}
	return sk
}
