package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"metier"
	"metier/harness"
	"metier/internal/archive"
	"metier/internal/digest"
	"metier/internal/namedfile"
	"metier/internal/termtext"
	"metier/settings"
	"metier/skillmd"
)

// maxSkillFile limits the size of a SKILL.md that is downloaded alone.
const maxSkillFile = 4 << 20

// changedHint is the fix if a source does not have the bytes of the lock any more.
const changedHint = "check what changed; 'metier update' installs what the source contains now"

// content is what remains of a source when it was fetched: files in a folder.
type content struct {
	root *os.Root // the folder of FetchOptions.Dir
	dir  string
}

func openContent(o FetchOptions) (*content, error) {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, err
	}
	return &content{root, o.Dir}, errors.Join(root.Mkdir("files", 0o755), root.Mkdir("work", 0o700))
}

func (c *content) close() error { return c.root.Close() }

// create creates a file for a download.
func (c *content) create(name string) (*os.File, error) {
	return c.root.OpenFile(filepath.Join("work", name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// fetchArchive fetches an archive, from this machine or from an address, and extracts it.
func fetchArchive(ctx context.Context, s Source, o FetchOptions) (_ *Fetched, err error) {
	c, err := openContent(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	file, err := c.create("archive")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	f := &Fetched{Source: Source{Kind: Archive, Location: s.Location, Query: s.Query, Partial: s.Partial}, Dir: filepath.Join(o.Dir, "files"), harnesses: o.harnesses}
	var got download
	if s.Local() {
		got, err = copyLocal(ctx, s.Location, file)
	} else {
		got, err = f.downloadOne(ctx, s, o, maxDownload, file)
	}
	if err != nil {
		return nil, err
	}
	if err := locked(o.Digest, got.digest, s.Location, changedHint); err != nil {
		return nil, err
	}
	f.Digest = got.digest
	return f, c.unpack(ctx, f, file, got.size, o.Wrapped && !o.harnesses)
}

// downloadOne downloads the file that a source is, unless the locked one is kept.
func (f *Fetched) downloadOne(ctx context.Context, s Source, o FetchOptions, most int64, to *os.File) (download, error) {
	w, u, err := newWeb(s.address(), o.web)
	if err != nil {
		return download{}, err
	}
	defer w.close()
	if n, kept, err := (downloads{dir: o.Downloads}).get(o.Digest, to); kept || err != nil {
		return download{size: n, digest: o.Digest}, err
	}
	if err := o.online(s); err != nil {
		return download{}, err
	}
	o.report("downloading " + shown(u))
	got, err := w.save(ctx, u, most, to)
	if err == nil {
		f.keep(o, got.digest, io.NewSectionReader(to, 0, got.size))
	}
	return got, err
}

// copyLocal copies an archive of this machine, so that what is checked cannot change.
func copyLocal(ctx context.Context, name string, to *os.File) (download, error) {
	in, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if errors.Is(err, fs.ErrNotExist) {
		return download{}, metier.Fieldf(metier.NotFound, "Request.Source", "source_missing", forms, "there is no file %s", name)
	}
	if err != nil {
		return download{}, metier.Fieldf(metier.Invalid, "Request.Source", "source_unreadable", "check its permissions", "%v", err)
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return download{}, metier.Fieldf(metier.Invalid, "Request.Source", "source_invalid", forms, "%s is not a file", name)
	}
	return copyDigested(ctx, name, in, to)
}

func copyDigested(ctx context.Context, name string, in io.Reader, to *os.File) (download, error) {
	h, start := digest.New(), &head{}
	n, err := io.Copy(io.MultiWriter(to, h, start), io.LimitReader(stopping{ctx, in}, maxDownload+1))
	switch {
	case err != nil:
		return download{}, err
	case n > maxDownload:
		return download{}, metier.Fieldf(metier.LimitReached, "Request.Source", "download_too_large", "use a smaller one", "%s has more than %d bytes", name, maxDownload)
	case start.isPage():
		return download{}, metier.Fieldf(metier.Invalid, "Request.Source", "source_is_page", "download the archive again; the server may require that you sign in", "%s is a web page, not an archive", name)
	}
	return download{size: n, digest: h.Sum()}, nil
}

// stopping is a reader that fails when its context ends.
type stopping struct {
	ctx context.Context
	io.Reader
}

func (r stopping) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

// unpack extracts an archive that may have a folder around the skill's files.
func (c *content) unpack(ctx context.Context, f *Fetched, file *os.File, size int64, wrapped bool) error {
	entries, err := c.extract(ctx, f, file, size, "work/files", f.Source.Location)
	if err != nil {
		return err
	}
	wrapper, err := layoutOf(f, entries, wrapped)
	if err != nil {
		return err
	}
	at := func(is func(string) bool) bool {
		return slices.ContainsFunc(entries, func(p string) bool { return is(strings.TrimPrefix(p, wrapper+"/")) })
	}
	plugins := at(isTopManifest) && !at(f.isEntry)
	switch {
	case wrapper == "" && plugins:
		return errors.Join(c.root.Remove("files"), c.root.Rename(filepath.FromSlash("work/files"), "files"))
	case wrapper == "":
		return c.place("work/files")
	case plugins:
		f.inner = wrapper
	}
	if wrapped {
		f.wrapper = wrapper
	}
	return c.root.Rename(filepath.Join("work", "files", wrapper), filepath.Join("files", wrapper))
}

// extract extracts an archive into a new folder, and returns the paths of its files.
func (c *content) extract(ctx context.Context, f *Fetched, file *os.File, size int64, into, what string) ([]string, error) {
	into = filepath.FromSlash(into)
	if err := c.root.MkdirAll(into, 0o755); err != nil {
		return nil, err
	}
	dir, err := c.root.OpenRoot(into)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	got, err := archive.Extract(ctx, file, size, dir, archive.Limits{})
	if err != nil {
		return nil, archiveFailed(what, err)
	}
	if len(got.Ignored) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("not installed, because macOS added them to %s: %s", termtext.Line(filepath.Base(what)), few(got.Ignored)))
	}
	out := make([]string, len(got.Entries))
	for i, e := range got.Entries {
		out[i] = e.Path
	}
	return out, nil
}

// few lists the first names, safe to print.
func few(names []string) string {
	out := make([]string, 0, maxNote+1)
	for i, n := range names {
		if i == maxNote {
			out = append(out, "…")
			break
		}
		out = append(out, termtext.Quote(n))
	}
	return strings.Join(out, ", ")
}

// archiveKinds are the kinds of the errors of archives. Others are invalid.
var archiveKinds = map[archive.Code]metier.Kind{archive.CodeUnsupported: metier.Unsupported, archive.CodeTooLarge: metier.LimitReached, archive.CodeIO: metier.Unavailable}

// archiveFailed returns an error about an archive as an error of this package.
func archiveFailed(what string, err error) error {
	code := archive.CodeOf(err)
	if code == "" {
		return err
	}
	kind, ok := archiveKinds[code]
	if !ok {
		kind = metier.Invalid
	}
	if e, ok := errors.AsType[*archive.Error](err); ok && e.Err != nil { // without the code, which is shown anyway
		if err = e.Err; e.Entry != "" {
			err = fmt.Errorf("entry %s: %w", termtext.Quote(e.Entry), e.Err)
		}
	}
	return &metier.Error{Op: "extract", Path: what, Field: "Request.Source", Kind: kind, Code: string(code), Err: err}
}

// wrapped reports whether an archive must have one folder with the name of the skill.
func wrapped(set settings.Settings) bool {
	return set.Install.ArchiveLayout == settings.ArchiveLayoutWrapper
}

// layoutOf returns the folder around the skill's files, or "" if SKILL.md is at the top.
func layoutOf(f *Fetched, entries []string, wrapped bool) (string, error) {
	file := cmp.Or(entryFile(f.harnesses), "SKILL.md")
	refused := func(format string, args ...any) error {
		hint := "pack one folder that contains " + file + " and has the name of the skill"
		if !wrapped {
			hint = "pack one folder that contains " + file + ", or the content of that folder"
		}
		return &metier.Error{Path: f.Source.Location, Field: "Request.Source", Kind: metier.Invalid, Code: "archive_layout", Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	var tops, loose []string
	flat := false
	for _, p := range entries {
		top, _, folder := strings.Cut(p, "/")
		flat = flat || f.isEntry(p)
		switch {
		case !folder:
			loose = append(loose, p)
		case !slices.Contains(tops, top):
			tops = append(tops, top)
		}
	}
	switch {
	case !wrapped && (flat || slices.ContainsFunc(entries, isTopManifest)):
		return "", nil
	case flat:
		return "", refused("SKILL.md is at the top of the archive, not in a folder with the name of the skill")
	case len(loose) > 0:
		return "", refused("it has files beside the folder of the skill: %s", few(loose))
	case len(tops) > 1:
		return "", refused("it has %d folders instead of one: %s", len(tops), few(tops))
	case !slices.ContainsFunc(entries, func(p string) bool {
		p = strings.TrimPrefix(p, tops[0]+"/")
		return f.isEntry(p) || !wrapped && isTopManifest(p)
	}):
		return "", refused("its folder %s contains no %s", termtext.Quote(tops[0]), file)
	}
	return tops[0], nil
}

// isTopManifest reports whether a path is that of a manifest of the plugin or marketplace at the top.
func isTopManifest(p string) bool { return p == agentPlugin || p == claudePlugin || p == marketplace }

// fetchFile fetches a SKILL.md from an address.
func fetchFile(ctx context.Context, s Source, o FetchOptions) (_ *Fetched, err error) {
	c, err := openContent(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.root.Mkdir(filepath.Join("work", "files"), 0o755); err != nil {
		return nil, err
	}
	file, err := c.create(filepath.Join("files", "SKILL.md"))
	if err != nil {
		return nil, err
	}
	f := &Fetched{Source: Source{Kind: File, Location: s.Location, Query: s.Query, Partial: s.Partial}, Dir: filepath.Join(o.Dir, "files")}
	got, err := f.downloadOne(ctx, s, o, maxSkillFile, file)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return nil, err
	}
	if err := locked(o.Digest, got.digest, s.Location, changedHint); err != nil {
		return nil, err
	}
	f.Digest = got.digest
	return f, c.place("work/files")
}

// place moves the files of one skill into a folder with the name that its SKILL.md gives it.
func (c *content) place(from string) error {
	from = filepath.FromSlash(from)
	name := "skill"
	for _, file := range []string{"SKILL.md", "skill.md", harness.File} {
		text, err := namedfile.ReadIn(c.root, filepath.Join(from, file), maxSkillFile)
		if err != nil {
			continue // Find reports it
		}
		if doc, _ := skillmd.Parse(text); checkName(doc.Front.Name) == nil {
			name = doc.Front.Name
		}
		break
	}
	return c.root.Rename(from, filepath.Join("files", name))
}

// misnamed reports the skill of an archive whose folder has another name.
func (f *Fetched) misnamed(sk metier.Skill) error {
	if f.wrapper == "" || sk.Name == f.wrapper {
		return nil
	}
	return &metier.Error{Path: f.Source.Location, Field: "Request.Source", Kind: metier.Invalid, Code: "archive_layout", Hint: "rename the folder in the archive, or the skill",
		Err: fmt.Errorf("its folder %s does not have the name of the skill, %s", termtext.Quote(f.wrapper), termtext.Quote(sk.Name))}
}

// digestOf returns the digest of the bytes that the skill in a folder of what was fetched came from.
func (f *Fetched) digestOf(folder string) string {
	if d, ok := f.digests[path.Join(f.Source.Path, folder)]; ok {
		return d
	}
	return f.Digest
}
