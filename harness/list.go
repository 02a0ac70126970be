package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"metier"
	"metier/internal/promptescape"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

// listTool lists the content of a group, with descriptions only.
type listTool struct{ name string }

// Instead returns the name of the skill tool that this tool replaces.
func (t listTool) Instead() string { return settings.ToolListSkills }

func (t listTool) Spec(ctx context.Context, s *metier.Session) (metier.Spec, bool) {
	return describes(t.name, settings.ToolListSkills, listText), offered(ctx, s, false)
}

func (t listTool) what(ctx context.Context, s *metier.Session, raw json.RawMessage) (location, error) {
	var a pathArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return location{}, err
	}
	if a.Path == "" {
		a.Path = "."
	}
	return find(ctx, s, a.Path, "", skillsDir, refsDir)
}

func (t listTool) Facts(ctx context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	if _, err := t.what(ctx, s, raw); metier.KindOf(err) == metier.Invalid {
		return metier.Facts{}, err
	}
	return metier.Facts{Request: policy.Request{Effect: policy.Read}}, nil
}

func (t listTool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	p, err := t.what(ctx, x.Session(), x.Call().Args)
	if err != nil {
		return metier.Failure(err), nil
	}
	return list(ctx, x, p)
}

// mostListed is the maximum number of entries in a list, listMax of bytes of
// paths and descriptions, and longest of characters of a description.
const (
	mostListed = 1000
	listMax    = 256 << 10
	longest    = 1024
)

type item struct {
	Name        string `json:"name"` // its path, by which it is loaded
	Path        string `json:"path"`
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

func (n *Node) kind() string {
	if n.Kind == Leaf {
		return n.Type
	}
	return string(n.Kind)
}

// list describes the content of a group, or another node itself. Entries that
// are hidden from the model are counted but not named.
func list(ctx context.Context, x *metier.ToolContext, p location) (metier.Result, error) {
	children := p.node.Children
	if p.node.Kind != Group {
		children = []*Node{p.node}
	}
	items, left, more, size := []item{}, 0, 0, 0
	for _, n := range children {
		_, told, err := x.Session().Entry(ctx, location{p.label, p.h, n, ""}.id(), "")
		switch {
		case ctx.Err() != nil:
			return metier.Result{}, ctx.Err()
		case err != nil || !told:
			left++
		case len(items) >= mostListed || size > listMax:
			more++
		default:
			size += len(n.Path) + len(n.Description)
			items = append(items, item{n.Path, n.Path, n.kind(), n.Description})
		}
	}
	var b strings.Builder
	if p.node.Kind == Group {
		fmt.Fprintf(&b, "Content of %s:\n", shown(p.node))
	}
	for _, it := range items {
		fmt.Fprintf(&b, "- %s (%s)", promptescape.Plain(it.Path), promptescape.Plain(it.Kind))
		if d := short(it.Description); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteByte('\n')
	}
	if len(items) == 0 {
		b.WriteString("It is empty.\n")
	}
	if more > 0 {
		fmt.Fprintf(&b, "%d more are not listed.\n", more)
	}
	if left > 0 {
		fmt.Fprintf(&b, "%d entries cannot be used.\n", left)
	}
	r := metier.Text(b.String())
	r.Detail = detail(p.id(), p.node.Path, map[string]any{"results": items, "total": len(items) + more, "unusable": left})
	r.Label = policy.Label{Role: policy.Context, Origin: p.id(), Mediated: true}
	return r, nil
}

func shown(n *Node) string {
	if n.Path == "." {
		return "the harness"
	}
	return promptescape.Plain(n.Path)
}

// short returns a description as one line.
func short(d string) string {
	text := []rune(termtext.Line(d))
	if len(text) > longest {
		text = append(text[:longest-1], '…')
	}
	out, _ := promptescape.Neutralize(string(text))
	return out
}

// files lists the files of an opaque leaf without a main file.
func files(ctx context.Context, x *metier.ToolContext, p location, sk metier.Skill) (metier.Result, error) {
	full, err := x.Files(ctx, sk)
	if err != nil {
		return metier.Failure(err), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Files of %s:\n", shown(p.node))
	n, more := 0, 0
	for _, f := range full.Resources {
		if f.Path == leafFile {
			continue
		}
		if n++; b.Len() > namesMax {
			more++
			continue
		}
		fmt.Fprintf(&b, "- %s (%d bytes)\n", promptescape.Plain(path.Join(p.node.Path, f.Path)), f.Size)
	}
	switch {
	case n == 0:
		b.WriteString("It is empty.\n")
	case more > 0:
		fmt.Fprintf(&b, "%d more are not listed.\n", more)
	}
	r := metier.Text(b.String())
	r.Detail = detail(p.id(), p.node.Path, map[string]any{"total": n})
	r.Label = policy.Label{Role: policy.Context, Origin: p.id(), Tier: sk.Tier, Mediated: true}
	return r, nil
}
