package harness

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/confine"
	"metier/internal/promptescape"
	"metier/policy"
)

// read returns one whole file. It uses the session's file read, so limits,
// digests, records, and injection checks apply.
func read(ctx context.Context, x *metier.ToolContext, p location, sk metier.Skill) (metier.Result, error) {
	file := p.file
	if file == "" {
		file = p.node.File
	}
	r, err := x.Read(ctx, p.id(), file, 0)
	var text string
	if err == nil {
		text, err = content(x, p, sk, file, r)
	}
	if err != nil {
		if ctx.Err() != nil {
			return metier.Result{}, ctx.Err()
		}
		res := metier.Failure(err)
		res.Detail, _ = json.Marshal(r) // plain data
		return res, nil
	}
	res := metier.Text(text)
	res.Detail = detail(p.id(), p.node.Path, r)
	res.Label = policy.Label{Role: policy.Context, Origin: p.id(), Tier: sk.Tier, Mediated: true}
	return res, nil
}

// content is what the model reads of a file: its text, escaped inside an element
// unless replies are plain, or other content as base64. In text, invalid UTF-8
// bytes are replaced and counted in a note.
func content(x *metier.ToolContext, p location, sk metier.Skill, file string, r metier.Reading) (string, error) {
	shown := path.Join(p.node.Path, file)
	if p.node.Kind == Document {
		shown = p.node.Path
	}
	if r.Status == "binary" && r.Text == "" {
		return fmt.Sprintf("%s is a binary file: %d bytes. Its content is not shown.\n", promptescape.Plain(shown), r.Size), nil
	}
	stray := 0
	if r.Encoding == "base64" {
		data, err := base64.StdEncoding.DecodeString(r.Text)
		if err != nil {
			return "", &metier.Error{Op: "read", Path: shown, Kind: metier.Internal, Code: "encode", Err: err}
		}
		if !binary(data) {
			r.Text, stray = replaced(data)
			r.Encoding = ""
			if err := x.Suspect(sk, file, r.Text); err != nil { // it was checked as base64 before
				return "", err
			}
		}
	}
	if x.Session().PlainReplies() && !r.Truncated && r.Encoding == "" && stray == 0 && len(r.Diagnostics) == 0 {
		return r.Text, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, ` path="%s" kind="%s" size="%d"`, promptescape.Attribute(shown), promptescape.Attribute(p.node.kind()), r.Size)
	if r.Truncated {
		fmt.Fprintf(&b, ` truncated="true" shown="%d"`, len(r.Text))
	}
	if r.Encoding != "" {
		fmt.Fprintf(&b, ` encoding="%s"`, r.Encoding)
	}
	if stray > 0 {
		fmt.Fprintf(&b, ` replaced="%d"`, stray)
	}
	text, n := promptescape.Element("skill_resource", b.String(), r.Text)
	if n > 0 {
		x.Record(event.Note{Code: "wrapper-tag-neutralized", On: p.id(), N: n})
	}
	if stray > 0 {
		text += fmt.Sprintf("Note: %d bytes are not valid UTF-8; each is shown as U+FFFD.\n", stray)
	}
	for _, d := range r.Diagnostics {
		text += fmt.Sprintf("Note: %s: %s\n", d.Code, d.Detail)
	}
	return text, nil
}

// binary reports whether content is binary rather than text with stray bytes:
// it has a NUL, or more than a third of it is invalid UTF-8.
func binary(b []byte) bool {
	if bytes.IndexByte(b, 0) >= 0 {
		return true
	}
	_, stray := replaced(b)
	return stray > 1 && stray*3 > len(b)
}

// replaced returns the text with each stray byte replaced, and their number.
func replaced(b []byte) (string, int) {
	out := string([]rune(string(b)))
	return out, strings.Count(out, "\uFFFD") - bytes.Count(b, []byte("\uFFFD"))
}

// filesBelow lists at most most regular files below a folder, in byte order. It
// omits links.
func filesBelow(d *confine.Dir, dir string, most int) (out []string, cut bool) {
	const deepest, folders = 8, 1000
	seen := 0
	var walk func(at, rel string, depth int)
	walk = func(at, rel string, depth int) {
		if seen++; seen > folders || depth > deepest || cut {
			cut = true
			return
		}
		list, more, err := d.ReadDir(at, most+1)
		if cut = cut || more || err != nil; err != nil {
			return
		}
		for _, e := range list {
			name := e.Name
			if rel != "" {
				name = rel + "/" + e.Name
			}
			if _, err := confine.Clean(name); err != nil || confine.Private(e.Name) {
				continue
			}
			switch {
			case e.Type.IsDir():
				walk(join(at, e.Name), name, depth+1)
			case e.Type&fs.ModeType != 0:
			case len(out) >= most:
				cut = true
				return
			default:
				out = append(out, name)
			}
		}
	}
	walk(dir, "", 0)
	slices.Sort(out) // a walk goes by folders
	return out, cut
}
