package harness

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/promptescape"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

var (
	//go:embed load_skill.md
	loadText string
	//go:embed load_reference.md
	referenceText string
	//go:embed list_content.md
	listText string
	//go:embed load_content.md
	contentText string
)

// Tools returns the tools that discover and activate content of a session's
// harnesses by path. They replace the tools that load skills, read their files,
// and list them, with the names from the settings. Activations and reads work as
// in those tools. names are the settings' names of tools.
func Tools(names settings.Tools) []metier.Tool {
	return []metier.Tool{
		listTool{name: cmp.Or(names.List, "list_content")},
		loader{name: cmp.Or(names.Load, "load_skill"), canonical: settings.ToolLoadSkill, text: loadText, below: []string{skillsDir}},
		loader{name: cmp.Or(names.Resource, "load_reference"), canonical: settings.ToolReadSkillResource, text: referenceText, below: []string{refsDir}},
		loader{name: "load_content", canonical: settings.ToolLoadContent, text: contentText, second: true},
	}
}

// describes is the spec of a tool that takes a path.
func describes(name, canonical, text string, required ...string) metier.Spec {
	schema, err := json.Marshal(map[string]any{"type": "object", "additionalProperties": false, "required": append([]string{}, required...),
		"properties": map[string]any{"path": map[string]any{"type": "string", "description": "Path in the harness, with slashes."}}})
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return metier.Spec{Canonical: canonical, Effect: policy.Read, ToolSpec: model.ToolSpec{Name: name, Description: strings.TrimSpace(text), Schema: schema}}
}

type pathArgs struct {
	Path string `json:"path"`
}

// loader implements load_skill, load_reference, and load_content. They differ in
// the start of their paths.
type loader struct {
	name, canonical, text string
	below                 []string
	second                bool // only in v2
}

// Instead returns the name of the skill tool that this tool replaces.
func (t loader) Instead() string { return t.canonical }

func (t loader) Spec(ctx context.Context, s *metier.Session) (metier.Spec, bool) {
	return describes(t.name, t.canonical, t.text, "path"), offered(ctx, s, t.second)
}

func offered(ctx context.Context, s *metier.Session, second bool) bool {
	all, err := of(ctx, s)
	for _, m := range all {
		if !second || m.h.v2() {
			return err == nil
		}
	}
	return false
}

// Facts implements metier.Tool. It refuses a path that leaves the harness. A path
// that does not exist fails in Invoke.
func (t loader) Facts(ctx context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	p, sk, err := t.what(ctx, s, raw)
	f := metier.Facts{Request: policy.Request{Effect: policy.Read}}
	switch metier.KindOf(err) {
	case metier.Invalid:
		return f, err
	case metier.NotFound:
		return f, nil
	}
	if err != nil {
		return f, err
	}
	if p.node == nil || !p.hollow() {
		sub := sk.Subject()
		f.Skill = &sub
	}
	return f, nil
}

// what resolves the path of a call: an entry of a harness, or a skill of another
// root by its name.
func (t loader) what(ctx context.Context, s *metier.Session, raw json.RawMessage) (location, metier.Skill, error) {
	var a pathArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return location{}, metier.Skill{}, err
	}
	p, err := find(ctx, s, a.Path, t.below...)
	if metier.KindOf(err) == metier.NotFound && t.canonical == settings.ToolLoadSkill {
		if sk, told, other := s.Entry(ctx, a.Path, ""); other == nil && told && sk.Head.Kind == metier.KindSkill {
			return location{}, sk, nil
		}
	}
	if err != nil {
		return p, metier.Skill{}, err
	}
	sk, _, err := s.Entry(ctx, p.id(), "")
	return p, sk, err
}

// hollow reports whether the entry has no file to read, only a list of its content.
func (p location) hollow() bool { return p.node.File == "" && p.file == "" }

func (t loader) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	p, sk, err := t.what(ctx, x.Session(), x.Call().Args)
	switch {
	case err != nil:
		return metier.Failure(err), nil
	case p.node == nil, p.node.Skill() && p.file == "":
		return activate(ctx, x, sk)
	case p.hollow() && p.node.Kind == Leaf:
		return files(ctx, x, p, sk)
	case p.hollow():
		return list(ctx, x, p)
	}
	return read(ctx, x, p, sk)
}

// activate loads a skill: its SKILL.md, followed by the names of its scripts.
func activate(ctx context.Context, x *metier.ToolContext, sk metier.Skill) (metier.Result, error) {
	if _, told, err := x.Session().Entry(ctx, sk.ID.String(), ""); err == nil && !told && !active(x, sk) {
		return metier.Failure(&metier.Error{Op: "load", Skill: sk.Name, Kind: metier.NotFound, Code: "skill_not_found", Err: fmt.Errorf("no skill of this name can be loaded")}), nil
	}
	act, text, err := x.Activate(ctx, sk, nil)
	if err != nil {
		return metier.Failure(err), nil
	}
	if full, err := x.Files(ctx, sk); err == nil {
		text += scripts(full)
	}
	r := metier.Text(text)
	r.Detail = detail(act.SkillID, sk.Name, act.SkillActivated)
	r.Label = policy.Label{Role: policy.Context, Origin: act.SkillID, Tier: act.Source, Mediated: true}
	return r, nil
}

func active(x *metier.ToolContext, sk metier.Skill) bool {
	return slices.ContainsFunc(x.Active(), func(a event.SkillRef) bool { return a.ID == sk.ID.String() })
}

// namesMax is the maximum number of bytes of names in one list of files.
const namesMax = 32 << 10

// scripts lists the scripts of a skill by the names that run_script accepts.
func scripts(sk metier.Skill) string {
	var names []string
	bytes, more := 0, 0
	for _, f := range sk.Resources {
		name, ok := strings.CutPrefix(f.Path, "scripts/")
		if !ok {
			continue
		}
		name = promptescape.Plain(name)
		if bytes += len(name); bytes > namesMax {
			more++
			continue
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	text := "\n\nAvailable scripts: " + strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(", and %d more that are not listed", more)
	}
	return text
}

// detail returns a result as data. A tool returns activations, files, or lists,
// so each result has the fields of all of them.
func detail(id, path string, what any) json.RawMessage {
	out := map[string]any{"skillId": id, "name": path, "hash": "", "path": path, "status": "listed", "observedSizeBytes": 0, "results": []item{}, "total": 0}
	b, _ := json.Marshal(what) // plain data
	_ = json.Unmarshal(b, &out)
	b, _ = json.Marshal(out)
	return b
}

// Script resolves the skill and file of a run_script call. skill is the path of a
// skill as in load_skill, and script a name in its folder scripts/. A path that is
// not a skill of a harness is treated as a skill's name.
func Script(ctx context.Context, s *metier.Session, skill, script string) (name, file string, err error) {
	file = script
	if !strings.HasPrefix(script, "scripts/") {
		file = "scripts/" + script
	}
	p, err := find(ctx, s, skill, skillsDir)
	switch {
	case metier.KindOf(err) == metier.NotFound, err == nil && (!p.node.Skill() || p.file != ""):
		return skill, file, nil
	case err != nil:
		return "", "", err
	}
	return p.id(), file, nil
}
