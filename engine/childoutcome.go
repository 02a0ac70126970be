package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"metier"
	"metier/agent/subagent"
	"metier/event"
	"metier/internal/distinct"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/run"
	"metier/settings"
)

// Ended returns how a child ended, from its record.
func (c *children) Ended(ctx context.Context, id string) (subagent.Outcome, error) {
	unknown := &metier.Error{Op: subagent.OpDelegate, Kind: metier.NotFound, Code: "unknown_handle", Hint: "use the handle that a result names", Err: errors.New("no finished subagent has this handle")}
	if run.CheckID(id) != nil {
		return subagent.Outcome{}, unknown
	}
	o := c.parent.e.RunOptions()
	o.Top, o.RequireHead = c.parent.folder.Top(), !c.parent.trusted
	folder, err := run.Look(c.parent.folder.Children(), id, o)
	if err != nil {
		return subagent.Outcome{}, unknown
	}
	defer folder.Close()
	if err := folder.VerifyHead(ctx); err != nil {
		return subagent.Outcome{}, err
	}
	if past, err := readPast(ctx, folder); err != nil || !past.ended {
		return subagent.Outcome{}, unknown
	}
	return outcomeOf(ctx, folder)
}

// fileTools are the tools whose results come from the workspace, which the parent can read itself,
// or from the catalog, which it was shown. Files of skills are neither, see skillMade.
var fileTools = []string{settings.ToolReadFile, settings.ToolListFiles, settings.ToolSearchFiles, settings.ToolWriteFile, settings.ToolEditFile,
	settings.ToolSearchSkills, settings.ToolListSkills}

// leaves reports whether the result of a call may be repeated outside the child: it comes from the
// workspace, or it is a report meant to leave a child.
func leaves(e event.ToolResult) bool {
	return e.Code == "" && slices.Contains(fileTools, e.Tool) && !skillMade(e.Label) || subagent.Reported(e.Label)
}

// skillMade reports whether the result of a file tool contains text of a skill. Its origin is then
// the skill's ID, not the tool's name.
func skillMade(l policy.Label) bool {
	return !strings.HasPrefix(l.Origin, "tool:") && l.Origin != "metier"
}

// outcomeOf reads from a child's record how it ended, and what must not leave it.
func outcomeOf(ctx context.Context, folder *run.Folder) (o subagent.Outcome, err error) {
	r, err := run.Show(ctx, folder)
	if err != nil {
		return o, err
	}
	o.Head, o.Denied = r.Head, r.Denied
	for _, f := range r.Files {
		o.Files = append(o.Files, f.Path)
	}
	o.Files = distinct.Of(o.Files)
	var read []string
	for e, err := range events(ctx, folder.Log()) {
		if err != nil {
			return o, err
		}
		switch e := e.(type) {
		case event.SkillActivated:
			ref := event.SkillRef{ID: e.SkillID, Name: e.Name, Digest: e.Hash, Tree: e.Tree, Tier: e.Source}
			o.Skills = append(o.Skills, ref)
			serve(&o, ref)
			err = keepIn(ctx, folder, &o, nil, e.Text)
		case event.Input:
			if e.ID == "prompt" {
				var m model.Message
				if b, oerr := folder.Blobs().Open(ctx, e.Content); oerr == nil && json.Unmarshal(b, &m) == nil {
					o.Task = m.Text()
				}
			}
		case event.ToolResult:
			if !leaves(e) {
				err = keepIn(ctx, folder, &o, partsText, e.Content)
			}
		case event.ScriptExecuted:
			err = keepIn(ctx, folder, &o, nil, e.Stdout, e.Stderr)
		case event.PageFetched:
			read = append(read, addressesOf(ctx, folder, e)...)
		case event.CommandExecuted:
			err = keepIn(ctx, folder, &o, nil, e.Stdout, e.Stderr)
		case event.ModelFailed:
			err = keepIn(ctx, folder, &o, nil, e.Detail)
		case event.ModelReplied:
			o.Turns, o.Usage = o.Turns+1, o.Usage.Add(e.Usage)
		case event.ContextCompacted:
			o.Usage = o.Usage.Add(e.Usage)
		case event.FileRead:
			serve(&o, refOf(e.SkillID, e.Skill))
		case event.ResourceRead:
			serve(&o, refOf(e.SkillID, e.Skill))
		case event.ChildEnded:
			o.Usage = o.Usage.Add(e.Usage)
			for _, ref := range e.Served {
				serve(&o, ref)
			}
		case event.RunEnded:
			o.Status, o.Code = e.Status, e.Code
			if o.Answer, o.Output, err = answerOf(ctx, folder.Blobs(), e); err != nil {
				return o, err
			}
		}
		if err != nil {
			return o, err
		}
	}
	o.Private = distinct.Of(without(o.Private, read))
	return o, nil
}

// refOf returns the version of a skill that was read. Without v, nothing shows its version.
func refOf(id string, v *event.SkillVersion) event.SkillRef {
	if v == nil {
		return event.SkillRef{ID: id, Name: id}
	}
	return v.SkillRef
}

// serve notes that a model in the child read something of a skill, if it is one of an MCP server.
func serve(o *subagent.Outcome, ref event.SkillRef) {
	if strings.HasPrefix(ref.ID, policy.ServedPrefix) && !slices.Contains(o.Served, ref) {
		o.Served = append(o.Served, ref)
	}
}

// addressesOf returns the URLs of a page that was read, which a child may cite as sources. They
// omit the query, which can contain a key.
func addressesOf(ctx context.Context, folder *run.Folder, e event.PageFetched) (out []string) {
	if e.Status != "read" || e.Code != "" {
		return nil
	}
	for _, ref := range []record.Ref{e.URL, e.FinalURL} {
		if b, err := folder.Blobs().Open(ctx, ref); err == nil { // one that was erased stays private
			if address, _, _ := strings.Cut(string(b), "?"); address != "" {
				out = append(out, address)
			}
		}
	}
	return out
}

// without removes the public texts from the private ones. Elsewhere, their words stay private.
func without(private, public []string) []string {
	public = distinct.Of(public)
	slices.SortFunc(public, func(a, b string) int { return len(b) - len(a) }) // one can begin with another
	var pairs []string
	for _, p := range public {
		pairs = append(pairs, p, "\n")
	}
	r := strings.NewReplacer(pairs...)
	for i := range private {
		private[i] = r.Replace(private[i])
	}
	return private
}

// keepIn adds content of a child's record to what must stay in it. text extracts the text. Content
// that has been erased cannot be compared.
func keepIn(ctx context.Context, folder *run.Folder, o *subagent.Outcome, text func([]byte) string, refs ...record.Ref) error {
	for _, ref := range refs {
		if ref.Digest == "" {
			continue
		}
		b, err := folder.Blobs().Open(ctx, ref)
		switch {
		case record.CodeOf(err) == record.CodeErased:
			o.Blind = true
		case err != nil:
			return err
		case text != nil:
			o.Private = append(o.Private, text(b))
		default:
			o.Private = append(o.Private, string(b))
		}
	}
	return nil
}

// partsText returns the text of a result.
func partsText(b []byte) string {
	var parts []model.Part
	if json.Unmarshal(b, &parts) != nil {
		return string(b)
	}
	s := ""
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// answerOf returns the final text and the structured result of a run that ended.
func answerOf(ctx context.Context, blobs record.Blobs, e event.RunEnded) (answer string, output json.RawMessage, err error) {
	if e.Answer.Digest != "" {
		var m model.Message
		b, err := blobs.Open(ctx, e.Answer)
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err != nil {
			return "", nil, err
		}
		answer = m.Text()
	}
	if e.Output.Digest != "" {
		if output, err = blobs.Open(ctx, e.Output); err != nil {
			return "", nil, err
		}
	}
	return answer, output, nil
}
