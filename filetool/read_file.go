package filetool

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"metier"
	"metier/event"
	"metier/internal/argschema"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
)

// Limits of read_file.
const (
	readLines   = 1000      // lines per call, unless asked for fewer or more
	readBytes   = 256 << 10 // bytes per call
	readFileMax = 25 << 20  // bytes of a file that is read at all
)

//go:embed read_file.md
var readText string

type readFile struct{ files }

type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// fileDetail is the tool output artifact of read_file.
type fileDetail struct {
	Path      string `json:"path"`
	Size      int64  `json:"sizeBytes"`
	Digest    string `json:"digest"`
	Lines     int    `json:"lines"`
	From      int    `json:"from"`           // first line shown
	To        int    `json:"to"`             // last line shown
	Next      int    `json:"next,omitempty"` // offset to continue with
	Truncated bool   `json:"truncated"`
	Skill     string `json:"skillId,omitempty"`
}

var readSchema = sync.OnceValue(func() json.RawMessage {
	return argschema.Object(map[string]any{
		"path":   argschema.Text("Path of the file."),
		"offset": number("First line to show, counted from 1."),
		"limit":  number(fmt.Sprintf("Maximum number of lines to show (default %d).", readLines)),
	}, "path")
})

func (t readFile) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return t.spec(settings.ToolReadFile, readText, policy.Read, readSchema()), true
}

func (t readFile) args(raw json.RawMessage) (readArgs, error) {
	var a readArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, err
	}
	switch {
	case a.Path == "":
		return a, missing("path")
	case a.Offset < 0, a.Limit < 0:
		return a, metier.InvalidArguments("offset and limit count from 1")
	}
	return a, nil
}

func (t readFile) Facts(_ context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, err := t.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	fa, _, err := t.facts(s, a.Path, policy.Read)
	return fa, err
}

func (t readFile) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(x.Call().Args)
	if err != nil {
		return failed(ctx, err)
	}
	tg, err := t.again(x, a.Path, false)
	if err != nil {
		return failed(ctx, err)
	}
	switch {
	case tg.Skill != nil && tg.Rel == tg.Skill.Head.FileName:
		return t.instructions(ctx, x, tg, a)
	case tg.Skill != nil:
		return t.resource(ctx, x, tg, a)
	}
	d, rel, done, err := tg.open()
	if err != nil {
		return failed(ctx, readError("read_file", tg.Path, err))
	}
	defer done()
	b, info, err := d.ReadFile(rel, readFileMax)
	if err != nil {
		e := readError("read_file", tg.Path, err)
		if e.Code == "file_too_large" {
			e.Err = fmt.Errorf("the file has %d bytes; at most %d are read", info.Size, readFileMax)
		}
		return failed(ctx, e)
	}
	return t.show(tg, b, a), nil
}

// show gives the asked-for lines, or says why not.
func (t readFile) show(tg Target, b []byte, a readArgs) metier.Result {
	d := fileDetail{Path: tg.Path, Size: int64(len(b)), Digest: digest.Bytes(b), Lines: lines(b)}
	if tg.Skill != nil {
		d.Skill = tg.Skill.ID.String()
	}
	if !isText(b) {
		r := metier.Failure(&metier.Error{Op: "read_file", Path: tg.Path, Kind: metier.Invalid, Code: "not_text",
			Err: fmt.Errorf("the file is binary or not UTF-8: %d bytes, %s", d.Size, d.Digest)})
		r.Detail, _ = json.Marshal(d) // plain data
		return r
	}
	body, note, err := cut(b, a, &d)
	if err != nil {
		return metier.Failure(&metier.Error{Op: "read_file", Path: tg.Path, Kind: metier.Invalid, Code: "offset_past_end", Err: err})
	}
	if t.strict() && tg.Skill == nil {
		note += fmt.Sprintf("[digest %s]\n", d.Digest)
	}
	if note != "" && len(body) > 0 && body[len(body)-1] != '\n' {
		note = "\n" + note
	}
	r := t.result(settings.ToolReadFile, string(body)+note, d)
	if tg.Skill != nil {
		r.Label.Origin, r.Label.Tier = d.Skill, tg.Skill.Tier
	}
	return r
}

// cut takes the lines from offset on, within the limits, and says what is left
// out.
func cut(b []byte, a readArgs, d *fileDetail) (body []byte, note string, err error) {
	from, most := max(a.Offset, 1), a.Limit
	if most == 0 {
		most = readLines
	}
	if len(b) == 0 {
		return nil, "[the file is empty]\n", nil
	}
	if from > d.Lines {
		return nil, "", fmt.Errorf("offset is %d and the file has %d lines", from, d.Lines)
	}
	for range from - 1 {
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	n, end, clipped := 0, 0, false
	for n < most && end < len(b) {
		next := len(b)
		if i := bytes.IndexByte(b[end:], '\n'); i >= 0 {
			next = end + i + 1
		}
		if next > readBytes {
			if n == 0 { // one line that is longer than a call may give
				for end = readBytes; !utf8.RuneStart(b[end]); end-- {
				}
				n, clipped = 1, true
			}
			break
		}
		n, end = n+1, next
	}
	d.From, d.To = from, from+n-1
	if d.To < d.Lines {
		d.Next = d.To + 1
	}
	d.Truncated = d.Next > 0 || clipped
	if clipped {
		note = fmt.Sprintf("[line %d is cut after %d bytes]\n", from, end)
	}
	if d.Next > 0 {
		note += fmt.Sprintf("[lines %d to %d of %d; continue with offset %d]\n", d.From, d.To, d.Lines, d.Next)
	}
	return b[:end], note, nil
}

// resource reads another file of a skill through the session, which applies the
// settings of reads and records it.
func (t readFile) resource(ctx context.Context, x *metier.ToolContext, tg Target, a readArgs) (metier.Result, error) {
	if tg.Rel == "." {
		return failed(ctx, &metier.Error{Op: "read_file", Path: tg.Path, Kind: metier.Invalid, Code: "is_folder", Hint: "use list_files", Err: errors.New("it is a folder")})
	}
	r, err := x.Read(ctx, tg.Skill.ID.String(), tg.Rel, readBytes)
	if err != nil {
		res, err := failed(ctx, err)
		res.Detail, _ = json.Marshal(r) // plain data
		return res, err
	}
	var res metier.Result
	switch {
	case r.Status == "binary" || r.Encoding != "":
		res = metier.Failure(&metier.Error{Op: "read_file", Path: tg.Path, Kind: metier.Invalid, Code: "not_text",
			Err: fmt.Errorf("the file is binary: %d bytes", r.Size)})
	default:
		if r.Matches == nil || !*r.Matches {
			fallen := tg.Skill.Changed()
			tg.Skill = &fallen
		}
		res = t.show(tg, []byte(r.Text), a)
		if r.Truncated {
			res.Parts[0].Text += fmt.Sprintf("\n[only the first %d of %d bytes can be read]\n", len(r.Text), r.Size)
		}
		for _, d := range r.Diagnostics {
			res.Parts[0].Text += fmt.Sprintf("\n[%s: %s]\n", d.Code, d.Detail)
		}
	}
	res.Detail, _ = json.Marshal(r) // plain data
	return res, nil
}

// instructions reads SKILL.md. Whole, local and where the setting lists it, it
// is an activation; else it is a read of a file, recorded as one.
func (t readFile) instructions(ctx context.Context, x *metier.ToolContext, tg Target, a readArgs) (metier.Result, error) {
	sk := *tg.Skill
	usable := sk.State == metier.Loaded || sk.State == metier.Hidden
	if sk.State == metier.Disabled {
		return failed(ctx, &metier.Error{Op: "read_file", Path: tg.Path, Skill: sk.Name, Kind: metier.Denied, Code: "skill_disabled",
			Hint: "continue without it", Err: errors.New("a user disabled this skill")})
	}
	if !usable {
		return failed(ctx, &metier.Error{Op: "read_file", Path: tg.Path, Skill: sk.Name, Kind: metier.NotFound, Code: "skill_not_found",
			Err: fmt.Errorf("the skill is %s", sk.State)})
	}
	b, read, err := skillFile(ctx, x.Session().Snapshot(), sk)
	if err != nil {
		return failed(ctx, err)
	}
	whole := a.Offset <= 1 && (a.Limit == 0 || a.Limit >= lines(b))
	if whole && t.o.ActivateOnRead && sk.Head.Location != "" && (sk.ModelInvocable || x.Call().Actor != policy.ByModel) {
		act, txt, err := x.Activate(ctx, sk, nil)
		if err != nil {
			return failed(ctx, err)
		}
		r := t.result(settings.ToolReadFile, txt, act.SkillActivated)
		r.Label.Origin, r.Label.Tier = act.SkillID, act.Source
		return r, nil
	}
	if err := x.Unchanged(ctx, sk, sk.Head.FileName, b); err != nil {
		return failed(ctx, err)
	}
	if digest.Bytes(b) != string(sk.Digest) {
		sk = sk.Changed()
		tg.Skill = &sk
	}
	if err := x.Suspect(sk, sk.Head.FileName, string(b)); err != nil { // all of it: a part may be harmless alone
		return failed(ctx, err)
	}
	read.Tier = sk.Tier
	x.Record(event.FileRead{Call: x.Call().ID, SkillID: sk.ID.String(), Digest: digest.Bytes(b), Skill: &read})
	return t.show(tg, b, a), nil
}

// skillFile returns the SKILL.md of a skill, and the version that it is of.
func skillFile(ctx context.Context, snap *metier.Snapshot, sk metier.Skill) (b []byte, read event.SkillVersion, err error) {
	bundle, err := snap.Open(ctx, sk.ID)
	if err != nil {
		return nil, read, err
	}
	defer bundle.Close()
	if read, err = sk.Version(ctx, bundle); err != nil {
		return nil, read, err
	}
	r, err := bundle.Open(ctx, sk.Head.FileName)
	if err != nil {
		return nil, read, err
	}
	defer r.Close()
	b, err = io.ReadAll(io.LimitReader(r, readFileMax+1))
	if err != nil {
		return nil, read, readError("read_file", sk.Head.FileName, err)
	}
	if len(b) > readFileMax {
		return nil, read, &metier.Error{Op: "read_file", Path: sk.Head.FileName, Skill: sk.Name, Kind: metier.LimitReached, Code: "file_too_large",
			Err: fmt.Errorf("more than %d bytes", readFileMax)}
	}
	return b, read, nil
}

func lines(b []byte) int {
	n := bytes.Count(b, []byte("\n"))
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

func isText(b []byte) bool { return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) }
