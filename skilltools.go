package metier

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"metier/event"
	"metier/internal/argschema"
	"metier/internal/promptescape"
	"metier/internal/strictjson"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

//go:embed load_skill.md
var loadText string

//go:embed read_skill_resource.md
var resourceToolText string

// skillTools are the tools by which the model uses skills, as far as the
// settings have them; grants decide whether it may.
func skillTools(set settings.Settings) []Tool {
	var out []Tool
	if set.Tools.Load != "" && set.Activate.ByLoadTool() {
		out = append(out, loadTool{})
	}
	if set.Tools.Resource != "" {
		out = append(out, resourceTool{})
	}
	if set.Tools.Search != "" {
		out = append(out, searchTool{})
	}
	if listable(set) {
		out = append(out, pageTool{})
	}
	return out
}

// DecodeArgs reads a tool's arguments as strictly as the schema it was shown
// with: one JSON object, no key that is unknown, there twice or spelled in
// another case, no null, no wrong type, nothing after it. into points to a flat
// struct. without lists keys of it that the schema does not have; they are
// unknown, also with an empty value. The error has Kind Invalid and names the key.
func DecodeArgs(raw json.RawMessage, into any, without ...string) error {
	if err := strictjson.Decode(raw, into, without...); err != nil {
		return InvalidArguments("%w", err)
	}
	return nil
}

// decode is DecodeArgs for the skill tools. Their schemas have some keys only with
// certain settings.
func (s *Session) decode(raw json.RawMessage, into any) error {
	var without []string
	if !s.byID() {
		without = append(without, "skillId")
	}
	if !s.cfg.ToolsOnly {
		without = append(without, "offset")
	}
	if s.enveloped() {
		without = append(without, "file_path")
	}
	return DecodeArgs(raw, into, without...)
}

type loadArgs struct {
	Name     string `json:"name"`
	SkillID  string `json:"skillId,omitempty"` // in place of Name, with paths=none
	FilePath string `json:"file_path,omitempty"`
	Offset   int64  `json:"offset,omitempty"` // with Config.ToolsOnly
}

// loadTool activates a skill.
type loadTool struct{}

func (loadTool) Spec(ctx context.Context, s *Session) (Spec, bool) {
	l := s.listing()
	return Spec{Canonical: settings.ToolLoadSkill, Effect: policy.Read,
		ToolSpec: model.ToolSpec{Name: firstOf(s.cfg.Settings.Tools.Load, settings.ToolLoadSkill), Description: l.about, Schema: l.schema}}, len(l.may) > 0
}

// enumMax is how many names still go into the schema; more are in the catalog
// alone.
const enumMax = 200

func loadSchema(names []string, filePath, enum, offset, byID bool) json.RawMessage {
	name := argschema.Text("Name of the skill.")
	if enum && len(names) > 0 && len(names) <= enumMax {
		name["enum"] = names
	}
	props := map[string]any{"name": name}
	if filePath {
		props["file_path"] = argschema.Text("Path of one file inside the skill's folder, to read that file instead of the instructions.")
	}
	if offset {
		props["offset"] = offsetSchema
	}
	return identified(props, byID, "name")
}

// identified is the schema of a tool whose first required property names a
// skill. With byID its ID can stand in place of the name.
func identified(props map[string]any, byID bool, name string, required ...string) json.RawMessage {
	if !byID {
		return argschema.Object(props, append([]string{name}, required...)...)
	}
	props["skillId"] = argschema.Text("ID of the skill; give it or " + name + ".")
	return argschema.Object(props, required...)
}

// Identify returns how a call names a skill: by name, or by ID where the model
// is shown no paths (setting paths). field is what the tool calls the name. The
// error has Kind Invalid, or NotFound for an ID that no usable skill has.
func (s *Session) Identify(field, name, id string) (string, error) {
	switch {
	case id != "" && !s.byID():
		return "", InvalidArguments(`unknown field "skillId"`)
	case id != "" && name != "":
		return "", InvalidArguments("give skillId or %s, not both", field)
	case id == "" && name == "":
		return "", InvalidArguments("%s is missing", field)
	case id != "":
		if i, ok := s.Snapshot().named().text[id]; !ok || s.Snapshot().skills[i].ID.String() != id {
			return "", &Error{Op: "find", Skill: id, Kind: NotFound, Code: "skill_not_found", Hint: "take the skillId from the list of skills", Err: errors.New("no skill has this ID")}
		}
		return id, nil
	}
	return name, nil
}

var offsetSchema = map[string]any{"type": "integer", "minimum": 0, "description": "Offset to continue from, as given in the previous part."}

// checkOffset checks an offset argument.
func checkOffset(n int64) error {
	if n < 0 {
		return InvalidArguments("offset is negative")
	}
	return nil
}

func (loadTool) args(s *Session, raw json.RawMessage) (a loadArgs, err error) {
	if err := s.decode(raw, &a); err != nil {
		return a, err
	}
	a.Name, err = s.Identify("name", a.Name, a.SkillID)
	return a, err
}

func (t loadTool) Facts(ctx context.Context, s *Session, raw json.RawMessage) (Facts, error) {
	a, err := t.args(s, raw)
	if err != nil {
		return Facts{}, err
	}
	if err := checkOffset(a.Offset); err != nil {
		return Facts{}, err
	}
	return Facts{Request: policy.Request{Effect: policy.Read, Skill: s.subject(ctx, a.Name, a.FilePath)}}, nil
}

// subject returns the named skill for policy, or nil when there is none. file,
// where not "", is the file of it that is read.
func (s *Session) subject(ctx context.Context, name, file string) *policy.Subject {
	sk, _, err := s.Entry(ctx, name, file)
	if err != nil {
		return nil
	}
	sub := sk.Subject()
	return &sub
}

// Entry returns the skill of a name or ID, or the group or document of an ID,
// as the facts of a call need it. With file, a path in the skill's folder, it
// returns the skill whose rule restricts that file, which can be one nested in
// the folder. told reports whether the model may know about it. The error is that of
// Snapshot.Find.
func (s *Session) Entry(ctx context.Context, name, file string) (sk Skill, told bool, err error) {
	if sk, err = s.Snapshot().entry(name); err != nil {
		return sk, false, err
	}
	if strings.Contains(file, "/") {
		sk = s.innermost(sk, file)
	}
	sk = s.asked(ctx, sk)
	return sk, unlisted(&sk, &s.cfg.Grants, s.cfg.Settings.Activate.Injection) == "", nil
}

// asked indexes a skill that policy asks about, so that an answer covers the
// current files. Other skills are not opened before they are needed.
func (s *Session) asked(ctx context.Context, sk Skill) Skill {
	if sk.Effect(&s.cfg.Grants) == policy.RuleAsk {
		if full, err := s.index(ctx, nil, sk); err == nil {
			return full
		}
	}
	return sk
}

// covered returns a skill of a call with the digests of its files, if an answer about it covers them.
func (s *Session) covered(ctx context.Context, sub policy.Subject) policy.Subject {
	if sk, err := s.Snapshot().entry(sub.ID); err == nil && sub.Tree == "" && sk.ID.String() == sub.ID {
		full := s.asked(ctx, sk)
		sub.Digest, sub.Tree = string(full.Digest), string(full.Tree)
	}
	return sub
}

func (t loadTool) Invoke(ctx context.Context, x *ToolContext) (Result, error) {
	s := x.s
	a, err := t.args(s, x.call.Args)
	if err != nil {
		return s.replyError(err), nil
	}
	if a.FilePath != "" {
		x.offset = a.Offset
		return readResult(ctx, x, a.Name, a.FilePath, 0)
	}
	sk, err := s.Snapshot().Find(a.Name)
	if err == nil && s.hidden(x, sk) || CodeOf(err) == "skill_not_found" {
		err = s.unknown(x, a.Name)
	}
	if err != nil {
		return s.replyError(err), nil
	}
	act, text, err := x.Activate(ctx, sk, nil)
	if err != nil {
		return s.replyError(err), nil
	}
	if a.Offset > 0 && a.Offset >= int64(len(text)) {
		x.withdraw()
		return s.replyError(&Error{Op: "arguments", Skill: sk.Name, Kind: Invalid, Code: "invalid_arguments",
			Err: fmt.Errorf("offset %d is past the end of the instructions, which have %d bytes", a.Offset, len(text))}), nil
	}
	if s.enveloped() {
		return s.envelope(x, sk, act, text, int(a.Offset))
	}
	if most := x.call.Page; a.Offset > 0 || most > 0 && !promptescape.Fits(text, most) {
		text, _ = promptescape.Page(text, sk.Name, fmt.Sprintf("%s with name %q", x.call.Tool, a.Name), int(a.Offset), cmp.Or(most, math.MaxInt32))
	}
	return activated(act, text), nil
}

// unknown is the error for a name that means nothing to whoever asks. The model
// is told only of skills it may know.
func (s *Session) unknown(x *ToolContext, name string) error {
	e := &Error{Op: "find", Skill: name, Kind: NotFound, Code: "skill_not_found", Err: errors.New("no skill has this name")}
	if l := s.listing(); x.call.Actor != policy.ByModel {
		e.Hint = s.Snapshot().available(name)
	} else if l.shown() {
		e.Hint = listed(l.names, len(l.names)+l.Omitted)
		if l.Search != "" && l.partial() {
			e.Hint += "; find others with " + l.Search
		}
	}
	return e
}

// activated is the result of an activation; Detail is the tool output artifact.
func activated(act Activation, text string) Result {
	r := Text(text)
	r.Detail, _ = json.Marshal(act.SkillActivated) // plain data
	r.Label = policy.Label{Role: policy.Context, Origin: act.SkillID, Tier: act.Source, Mediated: true}
	return r
}

// envelope is the reply of profiles with tool_reply=envelope: {ok, name,
// source, skillDirectory, content}, with the content from an offset on. Where
// more follows it has nextOffset too.
func (s *Session) envelope(x *ToolContext, sk Skill, act Activation, text string, from int) (Result, error) {
	reply := struct {
		OK             bool    `json:"ok"`
		Name           string  `json:"name"`
		Source         string  `json:"source"`
		SkillDirectory *string `json:"skillDirectory"`
		Content        string  `json:"content"`
		page
	}{OK: true, Name: sk.Name, Source: "fs", page: page{Offset: int64(from)}}
	if sk.Head.Remote {
		reply.Source = sk.ID.Source // no file of this machine
	}
	if d := s.cfg.View.Dir(sk); d != "" {
		reply.SkillDirectory = &d
	}
	for part := []byte(text[from:]); ; {
		reply.Content = string(part)
		if reply.Next = 0; from+len(part) < len(text) {
			reply.Next, reply.Size = int64(from+len(part)), int64(len(text))
		}
		b, err := json.Marshal(reply)
		if err != nil {
			return Result{}, err
		}
		if most := x.call.Page; most == 0 || len(b) <= most || len(part) < 2 {
			return activated(act, string(b)), nil
		}
		part = promptescape.Fit(part, len(part)*x.call.Page/len(b))
	}
}

// page says in an envelope which part of a text it has.
type page struct {
	Offset int64 `json:"offset,omitempty"`
	Next   int64 `json:"nextOffset,omitempty"` // to read on; 0: this is the end
	Size   int64 `json:"size,omitempty"`       // bytes of the whole text, where more follows
}

// enveloped reports whether the skill tools answer in a JSON object.
func (s *Session) enveloped() bool { return s.cfg.Settings.Tools.Reply == settings.ReplyEnvelope }

// PlainReplies reports whether the skill tools answer with instructions, files,
// and what scripts print as they are (setting tool_reply).
func (s *Session) PlainReplies() bool { return s.cfg.Settings.Tools.Reply == settings.ReplyPlain }

// replyError tells the model why it got nothing.
func (s *Session) replyError(err error) Result { return s.enclosed(Failure(err)) }

// enclosed puts a failure into the envelope where replies have one.
func (s *Session) enclosed(r Result) Result {
	if s.enveloped() {
		b, _ := json.Marshal(map[string]any{"ok": false, "error": r.Parts[0].Text}) // plain data
		r.Parts[0].Text = string(b)
	}
	return r
}

// worded is a refusal in the form of the tool's other replies.
func (s *Session) worded(canonical string, r Result) Result {
	switch canonical {
	case settings.ToolLoadSkill, settings.ToolReadSkillResource, settings.ToolSearchSkills, settings.ToolListSkills:
		return s.enclosed(r)
	}
	return r
}

type readArgs struct {
	Skill    string `json:"skill"`
	SkillID  string `json:"skillId,omitempty"` // in place of Skill, with paths=none
	Path     string `json:"path"`
	MaxBytes *int   `json:"maxBytes,omitempty"` // nil: the default of the settings
	Offset   int64  `json:"offset,omitempty"`   // with Config.ToolsOnly
}

// envelopeReadArgs is what read_skill_resource takes with tool_reply=envelope.
type envelopeReadArgs struct {
	Name    string `json:"name"`
	SkillID string `json:"skillId,omitempty"`
	Path    string `json:"path"`
	Offset  int64  `json:"offset,omitempty"`
}

// resourceTool reads one file of a skill.
type resourceTool struct{ operator bool } // operator: the plain arguments, whatever the settings

func (resourceTool) Spec(_ context.Context, s *Session) (Spec, bool) {
	set := s.cfg.Settings
	spec := Spec{Canonical: settings.ToolReadSkillResource, Effect: policy.Read,
		ToolSpec: model.ToolSpec{Name: firstOf(set.Tools.Resource, settings.ToolReadSkillResource), Description: strings.TrimSpace(resourceToolText)}}
	skill, key := argschema.Text("Name of the skill."), "skill"
	props := map[string]any{"path": argschema.Text("Path of the file, relative to the skill's folder, for example references/guide.md.")}
	if s.enveloped() {
		key = "name"
	} else {
		props["maxBytes"] = map[string]any{"type": "integer", "minimum": 1, "description": fmt.Sprintf("Maximum number of bytes to return (default %d, at most %d).", set.Read.Default, set.Read.Max)}
	}
	if props[key] = skill; s.cfg.ToolsOnly {
		props["offset"] = offsetSchema
	}
	spec.Schema = identified(props, s.byID(), key, "path")
	return spec, slices.ContainsFunc(s.Snapshot().skills, func(sk Skill) bool { return sk.usable() })
}

func (t resourceTool) args(s *Session, raw json.RawMessage) (readArgs, error) {
	var a readArgs
	field := "skill"
	if s.enveloped() && !t.operator {
		var e envelopeReadArgs
		if err := s.decode(raw, &e); err != nil {
			return a, err
		}
		field, a = "name", readArgs{Skill: e.Name, SkillID: e.SkillID, Path: e.Path, Offset: e.Offset}
	} else if err := s.decode(raw, &a); err != nil {
		return a, err
	}
	if a.MaxBytes != nil && *a.MaxBytes < 1 {
		return a, InvalidArguments("maxBytes is less than 1")
	}
	if err := checkOffset(a.Offset); err != nil {
		return a, err
	}
	var err error
	a.Skill, err = s.Identify(field, a.Skill, a.SkillID)
	return a, err
}

func (t resourceTool) Facts(ctx context.Context, s *Session, raw json.RawMessage) (Facts, error) {
	a, err := t.args(s, raw)
	if err != nil {
		return Facts{}, err
	}
	return Facts{Request: policy.Request{Effect: policy.Read, Skill: s.subject(ctx, a.Skill, a.Path)}}, nil
}

// innermost is the skill whose rule counts for a file of one: where a skill
// lies in the folder of another, its files are under both, and what is denied or
// asked about there is so by either way.
func (s *Session) innermost(sk Skill, file string) Skill {
	at, best := path.Join(sk.ID.Path, file), strings.Count(path.Join(sk.ID.Path, "x"), "/")
	for i := range s.Snapshot().skills {
		in := &s.Snapshot().skills[i]
		depth := strings.Count(in.ID.Path, "/") + 1
		if in.ID.Source != sk.ID.Source || depth <= best || !strings.HasPrefix(at, in.ID.Path+"/") {
			continue
		}
		if in.Effect(&s.cfg.Grants) != policy.RuleAllow {
			sk, best = *in, depth
		}
	}
	return sk
}

func (t resourceTool) Invoke(ctx context.Context, x *ToolContext) (Result, error) {
	a, err := t.args(x.s, x.call.Args)
	if err != nil {
		return x.s.replyError(err), nil
	}
	most := 0
	if a.MaxBytes != nil {
		most = *a.MaxBytes
	}
	x.offset = a.Offset
	return readResult(ctx, x, a.Skill, a.Path, most)
}

// readResult reads and words the result for the model.
func readResult(ctx context.Context, x *ToolContext, skill, path string, max int) (Result, error) {
	s := x.s
	r, err := x.Read(ctx, skill, path, max)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		res := s.replyError(err)
		res.Detail, _ = json.Marshal(r) // plain data
		return res, nil
	}
	more := ""
	if s.cfg.ToolsOnly && r.Truncated {
		more = fmt.Sprintf("these are bytes %d to %d of %d. The file continues: call %s with the same arguments and offset %d to read on.", r.Offset, r.Next, r.Size, x.call.Tool, r.Next)
	}
	text, n := resourceText(r, more)
	if n > 0 {
		x.Record(event.Note{Code: "wrapper-tag-neutralized", On: r.SkillID, N: n})
	}
	switch {
	case s.enveloped():
		reply := struct {
			Content string `json:"content"`
			Name    string `json:"name"`
			OK      bool   `json:"ok"`
			Path    string `json:"path"`
			page
		}{Content: r.Text, Name: r.Skill, OK: true, Path: r.Path}
		if s.cfg.ToolsOnly {
			reply.page = page{Offset: r.Offset, Next: r.Next}
		}
		if reply.Next > 0 {
			reply.Size = r.Size
		}
		b, err := json.Marshal(reply)
		if err != nil {
			return Result{}, err
		}
		text = string(b)
	case s.PlainReplies() && r.Status != "binary" && !r.Truncated && more == "":
		text = r.Text
	case r.Status == "binary" && r.Text == "":
		text = fmt.Sprintf("%s is a binary file: %d bytes%s. Its content is not shown.\n", promptescape.Plain(r.Path), r.Size, s.shownDigest(", ", r.Digest, ""))
	}
	res := Text(text)
	res.Detail, _ = json.Marshal(r) // plain data
	res.Label = policy.Label{Role: policy.Context, Origin: r.SkillID, Tier: r.tier, Mediated: true}
	return res, nil
}

func (loadTool) canonical() string     { return settings.ToolLoadSkill }
func (resourceTool) canonical() string { return settings.ToolReadSkillResource }
func (pageTool) canonical() string     { return settings.ToolListSkills }
