package metier

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"metier/event"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/internal/promptescape"
	"metier/internal/sniff"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

// hardMax is the largest file a read hashes, whatever the settings say.
const hardMax = 64 << 20

// Reading is one read of a skill's file. Its JSON is the tool
// output artifact.
type Reading struct {
	Skill       string       `json:"skillName"`
	SkillID     string       `json:"skillId,omitempty"`
	Path        string       `json:"path"`
	Kind        ResourceKind `json:"kind,omitempty"`
	Status      string       `json:"status"` // read, binary, error
	Code        string       `json:"code,omitempty"`
	Text        string       `json:"-"`
	Encoding    string       `json:"encoding,omitempty"` // base64
	Size        int64        `json:"observedSizeBytes"`
	Digest      Digest       `json:"observedDigest,omitempty"`
	IndexedSize int64        `json:"registrySizeBytes"`
	Indexed     Digest       `json:"registryDigest,omitempty"`
	Matches     *bool        `json:"digestMatchesRegistry,omitempty"`
	IsText      bool         `json:"isText"`
	MaxBytes    int          `json:"maxBytes"`
	Truncated   bool         `json:"truncated"`
	Late        bool         `json:"late,omitempty"`
	Offset      int64        `json:"offset,omitempty"`     // of the first byte shown
	Next        int64        `json:"nextOffset,omitempty"` // of the first byte that is not shown; 0: all are
	Diagnostics []Diagnostic `json:"diagnostics"`

	clean  string             // Path after confine.Clean
	tier   policy.Tier        // of the skill
	page   int                // most bytes of Text; 0: MaxBytes
	read   event.SkillVersion // the version that was read
	before string             // the text just before Offset
}

// Read reads a file of a skill as the operator, through the same gate as the
// model's tool. path is relative to the skill's folder; max is in bytes, 0 the
// default. A refused or failed read is an Observation with a Code.
func (s *Session) Read(ctx context.Context, skill, path string, max int) (Observation, error) {
	a := readArgs{Skill: skill, Path: path}
	if max != 0 {
		a.MaxBytes = &max
	}
	args, err := json.Marshal(a)
	if err != nil {
		return Observation{}, &Error{Op: "read", Kind: Internal, Code: "encode", Err: err}
	}
	c := Call{ID: s.cfg.NewID(), Tool: settings.ToolReadSkillResource, Args: args, Actor: policy.ByOperator, By: s.cfg.By}
	return s.call(ctx, c, resourceTool{operator: true}, settings.ToolReadSkillResource)
}

// readResource reads, records the read on the scope, failures included, and
// returns what was found. The error says why nothing was.
func (s *Session) readResource(ctx context.Context, x *ToolContext, skill, path string, max int) (Reading, error) {
	r := Reading{Skill: skill, Path: path, Status: "error", Diagnostics: []Diagnostic{}, MaxBytes: s.cap(max), Offset: x.offset, page: s.page(x.call)}
	sk, err := s.resource(ctx, x, &r)
	if r.Matches == nil || !*r.Matches {
		sk = sk.Changed()
		r.tier = sk.Tier
	}
	if err == nil {
		if err = x.unchanged(ctx, sk, r.clean, string(r.Digest)); err != nil {
			r.Text, r.Status = "", "error"
		}
	}
	if err == nil { // judged as what it is now
		if err = s.suspected(x, sk, r.clean, r.before+r.Text, int(r.Offset)-len(r.before)); err != nil {
			r.Text, r.Status = "", "error"
		}
	}
	if err != nil {
		r.Code = CodeOf(err)
	}
	ev := event.ResourceRead{Call: x.call.ID, SkillID: r.SkillID, Name: shortPath(r.Skill), Source: sk.Tier, Path: shortPath(path), Kind: string(r.Kind),
		Status: r.Status, Code: r.Code, RegistryDigest: string(r.Indexed), ObservedDigest: string(r.Digest), Matches: r.Matches,
		MaxBytes: r.MaxBytes, Truncated: r.Truncated, Late: r.Late, Role: policy.Context}
	if r.Digest != "" {
		ev.ObservedSize, ev.ContentKind, ev.HostPath = &r.Size, contentKind(r.IsText), hostPath(sk, r.clean)
	}
	if r.Indexed != "" {
		ev.RegistrySize = &r.IndexedSize
	}
	if r.Status != "error" && restricts(r.SkillID, r.Path) {
		r.read.Tier = sk.Tier
		ev.Skill = &r.read
	}
	x.Record(ev)
	return r, err
}

// cap applies the settings to the asked for number of bytes.
func (s *Session) cap(max int) int {
	set := s.cfg.Settings.Read
	if max <= 0 {
		max = set.Default
	}
	if set.Max > 0 && (max > set.Max || max <= 0) {
		max = set.Max
	}
	return max
}

// page is the most bytes of a file's text in one reply; 0: no limit. The rest of
// the reply is around it: half of a JSON object may be escapes.
func (s *Session) page(c Call) int {
	switch {
	case c.Page == 0:
		return 0
	case s.enveloped():
		return c.Page / 2
	}
	return max(c.Page-2048, c.Page/2)
}

// resource goes through the checks in their fixed order.
func (s *Session) resource(ctx context.Context, x *ToolContext, r *Reading) (Skill, error) {
	fail := func(k Kind, code, text string) error {
		return &Error{Op: "read", Skill: r.Skill, Path: r.Path, Kind: k, Code: code, Err: errors.New(text)}
	}
	sk, err := s.Snapshot().entry(r.Skill)
	if err == nil && s.hidden(x, sk) || CodeOf(err) == "skill_not_found" {
		err = s.unknown(x, r.Skill)
	}
	if err == nil {
		err = s.refused(sk)
	}
	if err != nil {
		return sk, err
	}
	r.Skill, r.SkillID, r.tier = sk.Name, sk.ID.String(), sk.Tier
	if r.clean, err = confine.Clean(r.Path); err != nil {
		return sk, fail(Invalid, "resource_path_invalid", "a resource path is relative and stays in the skill's folder")
	}
	r.Kind = kindOfPath(r.clean)
	if sk.Head.TextOnly && r.clean != sk.Head.FileName {
		return sk, WithoutFiles(sk.Name, r.Path)
	}
	set := s.cfg.Settings.Read
	if set.Scope == settings.ResourceScopeOneLevel && strings.Count(r.clean, "/") > 1 {
		return sk, fail(Denied, "resource_too_deep", "only files at most one folder deep can be read")
	}
	if set.OnlyIndexed() || s.bound(sk) {
		if sk, err = s.index(ctx, x, sk); err != nil {
			return sk, err
		}
	}
	res, known := findResource(sk, r.clean)
	switch {
	case known:
		r.Indexed, r.IndexedSize = res.Digest, res.Size
	case !set.OnlyIndexed():
	case set.Late == settings.LateFilesMark && r.clean != sk.Head.FileName:
		r.Late = true
	default:
		return sk, fail(NotFound, "resource_not_indexed", "the file is not in the index of this skill")
	}
	return sk, s.readBytes(ctx, sk, r)
}

// WithoutFiles returns the error for a file of a skill that is stored as text.
func WithoutFiles(skill, file string) error {
	return &Error{Op: "read", Skill: skill, Path: file, Kind: NotFound, Code: "skill_without_files", Hint: "use its instructions alone", Err: errors.New("the skill does not have files: it is stored as text, without a bundle")}
}

// hidden reports whether the model may not know of a skill: it is left out of
// the catalog and nobody else put it into the session.
func (s *Session) hidden(x *ToolContext, sk Skill) bool {
	if x.call.Actor != policy.ByModel || sk.ModelInvocable {
		return false
	}
	_, active := s.active(sk.ID)
	return !active
}

func (s *Session) readBytes(ctx context.Context, sk Skill, r *Reading) error {
	fail := func(k Kind, code string, err error) error {
		return &Error{Op: "read", Skill: r.Skill, Path: r.Path, Kind: k, Code: code, Err: err}
	}
	b, err := s.Snapshot().Open(ctx, sk.ID)
	if err != nil {
		return err
	}
	defer b.Close()
	if r.read, err = sk.Version(ctx, b); err != nil {
		return err
	}
	f, err := b.Open(ctx, r.clean)
	if err != nil {
		return resourceCodes.Error("read", r.Skill, r.Path, err)
	}
	defer f.Close()
	// Of a long file only what can be shown is kept; all of it is hashed.
	h := digest.New()
	head, shown := window{to: sniff.Bytes}, window{from: max(0, r.Offset-overlap), to: r.Offset + int64(r.MaxBytes)}
	r.Size, err = io.Copy(io.MultiWriter(h, &head, &shown), io.LimitReader(untilDone{ctx, f}, hardMax+1))
	if err != nil {
		return resourceCodes.Error("read", r.Skill, r.Path, err)
	}
	if r.Size > hardMax {
		r.Size = 0
		return fail(LimitReached, "resource_too_large", fmt.Errorf("the file has more than %d bytes", hardMax))
	}
	r.Digest, r.IsText = Digest(h.Sum()), sniff.Text(head.kept, r.Size > int64(len(head.kept)))
	if r.Indexed != "" {
		same := r.Indexed == r.Digest
		r.Matches = &same
		if !same {
			r.Diagnostics = append(r.Diagnostics, Diagnostic{Severity: "warning", Code: "resource-digest-mismatch", Path: r.Path,
				Detail: fmt.Sprintf("the file changed after it was indexed: %d bytes then, %d now", r.IndexedSize, r.Size)})
		}
	}
	if r.Late {
		r.Diagnostics = append(r.Diagnostics, Diagnostic{Severity: "warning", Code: "resource-late", Path: r.Path, Detail: "the file was not there when the skill was indexed"})
	}
	if r.Offset > 0 && r.Offset >= r.Size {
		return fail(Invalid, "invalid_arguments", fmt.Errorf("offset %d is past the end of the file, which has %d bytes", r.Offset, r.Size))
	}
	before := int(r.Offset - shown.from)
	r.before = strings.ToValidUTF8(string(shown.kept[:before]), "\uFFFD")
	return s.present(shown.kept[before:], r, fail)
}

// overlap is how many bytes before an offset are searched for an injection with
// those after it, so that none is hidden by the cut between two pages.
const overlap = 4096

// window keeps the bytes of a stream from one offset up to another.
type window struct {
	from, to, at int64
	kept         []byte
}

func (w *window) Write(p []byte) (int, error) {
	n := int64(len(p))
	if first, last := max(w.from-w.at, 0), min(w.to-w.at, n); first < last {
		w.kept = append(w.kept, p[first:last]...)
	}
	w.at += n
	return len(p), nil
}

// untilDone ends a long read when the caller gives up.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// present fills the text the model reads, as the settings want it. data is the
// file from r.Offset on, at most r.MaxBytes of it.
func (s *Session) present(data []byte, r *Reading, fail func(Kind, string, error) error) error {
	set := s.cfg.Settings.Read
	if !r.IsText && set.Binary == settings.BinaryRefuse {
		return fail(Unsupported, "resource_binary", errors.New("the file is not text"))
	}
	if !r.IsText && set.Binary == settings.BinaryMetadata {
		r.Status = "binary"
		return nil
	}
	if r.Size > int64(r.MaxBytes) && set.Over == settings.ReadOverRefuse {
		return fail(LimitReached, "resource_too_large", fmt.Errorf("the file has %d bytes, %d may be read", r.Size, r.MaxBytes))
	}
	encode := func(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
	r.Status = "read"
	if !r.IsText {
		r.Status, r.Encoding, encode = "binary", "base64", base64.StdEncoding.EncodeToString
	}
	rest := r.Size - r.Offset
	r.Text = encode(data)
	for r.page > 0 && !promptescape.Fits(r.Text, r.page) {
		data = promptescape.Fit(data, len(data)*min(r.page, len(r.Text)-1)/len(r.Text))
		if !r.IsText {
			data = data[:max(len(data)/3*3, 1)] // the texts of all pages make one text
		}
		r.Text = encode(data)
	}
	if r.Truncated = int64(len(data)) < rest; r.Truncated {
		if r.IsText {
			data = sniff.WholeRunes(data)
			r.Text = encode(data)
		}
		r.Next = r.Offset + int64(len(data))
	}
	return nil
}

// FileCodes are the codes for a file of a skill that does not exist, is outside of the skill, or is
// not a regular file.
type FileCodes struct{ Missing, Outside, Irregular string }

var resourceCodes = FileCodes{"resource_not_found", "resource_outside_root", "resource_not_file"}

// Error returns the error for a file that could not be opened or read because of err. If the reason
// is another one, such as drift, the source's code and hint remain.
func (c FileCodes) Error(op, skill, file string, err error) error {
	e := &Error{Op: op, Skill: skill, Path: file, Kind: Unavailable, Code: "unknown", Err: err}
	cause, known := errors.AsType[*Error](err)
	if !known {
		return e
	}
	e.Kind = cause.Kind
	switch {
	case cause.Kind == NotFound:
		e.Code = c.Missing
	case cause.Kind == Invalid:
		e.Code = c.Irregular
	case cause.Kind == Denied && cause.Code != "permission_denied":
		e.Code = c.Outside
	default:
		e.Code, e.Hint = CodeOf(cause), cause.Hint
	}
	return e
}

func findResource(sk Skill, clean string) (Resource, bool) {
	for _, r := range sk.Resources {
		if r.Path == clean {
			return r, true
		}
	}
	return Resource{}, false
}

// shortPath is a model's path as a fact: escaped, at most 1,024 bytes.
func shortPath(p string) string {
	const most = 1024
	if len(p) > most {
		p = strings.ToValidUTF8(p[:most], "")
	}
	return termtext.Line(p)
}

func hostPath(sk Skill, p string) string {
	if d := sk.Dir(); d != "" {
		return d + "/" + p
	}
	return ""
}

// resourceText is what the model reads of one file of a skill, and how many
// look-alike tags were neutralized.
func resourceText(r Reading, more string) (string, int) {
	w := promptescape.Resource{Skill: r.Skill, Path: path.Clean(r.Path), Kind: string(r.Kind), Size: r.Size, Offset: r.Offset, Cut: r.Truncated, Encoding: r.Encoding, Late: r.Late, Content: r.Text}
	if r.Matches != nil && !*r.Matches {
		w.Changed, w.WasSize = true, r.IndexedSize
	}
	for _, d := range r.Diagnostics {
		w.Notes = append(w.Notes, d.Code+": "+d.Detail)
	}
	if more != "" {
		w.Notes = append(w.Notes, more)
	}
	return w.Text()
}
