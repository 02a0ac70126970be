package run

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"metier"
	"metier/record"
)

// ExportOptions are the options of [Export] and [ExportAt]. Nil means defaults.
type ExportOptions struct {
	// Unverified also exports a record that fails verification. The problems are listed in the
	// archive's verify.json.
	Unverified bool
}

// Export writes the run as a zip archive: <id>/events.jsonl, its blobs, the artifacts as the log
// produces them now, and verify.json. The archive depends only on the record: entries are sorted,
// and times are that of the log's last entry. A record that fails verification is an error
// (run_unverified) unless o allows it. Unzip the archive below a root to open the run.
func Export(ctx context.Context, f *Folder, w io.Writer, o *ExportOptions) error {
	rep, err := Verify(ctx, f)
	if err != nil {
		return err
	}
	return f.export(ctx, rep, w, o)
}

// ExportAt is Export for a folder whose log may be too damaged for Look. The archive of such a
// record contains the files of the folder as they are. The report is the one in verify.json.
func ExportAt(ctx context.Context, root, id string, w io.Writer, fo *Options, o *ExportOptions) (VerifyReport, error) {
	f, damage, err := lookDamaged(root, id, fo)
	if err != nil {
		return VerifyReport{ID: id}, err
	}
	defer func() { _ = f.shut() }()
	rep, err := f.verify(ctx, damage)
	if err != nil {
		return rep, err
	}
	return rep, f.export(ctx, rep, w, o)
}

func (f *Folder) export(ctx context.Context, rep VerifyReport, w io.Writer, o *ExportOptions) error {
	if !rep.OK && (o == nil || !o.Unverified) {
		detail := "the record of a child does not verify"
		if len(rep.Problems) > 0 {
			detail = rep.Problems[0].Code + ": " + rep.Problems[0].Detail
		}
		return wrong(metier.Drift, CodeUnverified, f.dir, "'metier audit verify "+f.id+"' lists every problem; ExportOptions.Unverified exports the record as it is", "the run does not verify: %s", detail)
	}
	files := map[string]func() ([]byte, error){}
	if err := f.collect(ctx, rep, files); err != nil {
		return err
	}
	at, err := f.lastTime(ctx)
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	for _, n := range slices.Sorted(maps.Keys(files)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := files[n]()
		if err != nil {
			return fault("export", n, err)
		}
		out, err := z.CreateHeader(&zip.FileHeader{Name: f.id + "/" + n, Method: zip.Deflate, Modified: at})
		if err == nil {
			_, err = out.Write(b)
		}
		if err != nil {
			return fault("export", n, err)
		}
	}
	return fault("export", f.dir, z.Close())
}

// lastTime returns the time of the last entry, truncated to seconds and no earlier than what zip
// can represent. For a log that cannot be read, it returns this earliest time.
func (f *Folder) lastTime(ctx context.Context) (time.Time, error) {
	at := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	if f.log == nil {
		return at, nil
	}
	head, err := f.log.Head(ctx)
	if err != nil {
		return at, fault("export", f.dir, err)
	}
	for en, err := range f.log.Read(ctx, max(head.Seq, 1)) {
		if err != nil {
			return at, fault("export", f.dir, err)
		}
		if en.At.After(at) {
			at = en.At.UTC().Truncate(time.Second)
		}
	}
	return at, nil
}

func (f *Folder) collect(ctx context.Context, rep VerifyReport, files map[string]func() ([]byte, error)) error {
	give := func(b []byte) func() ([]byte, error) { return func() ([]byte, error) { return b, nil } }
	list, err := f.artifacts(ctx)
	if !rep.OK && err == nil {
		err = printable(list)
	}
	switch {
	case err == nil:
		for _, dir := range []string{dirBlobs, dirChilds} {
			if err := f.collectDir(dir, files); err != nil {
				return err
			}
		}
		for _, a := range list {
			files[a.name] = a.data
		}
	case rep.OK:
		return err
	default: // the log produces no artifacts: keep what is in the folder
		if err := f.collectDir(".", files); err != nil {
			return err
		}
	}
	// The bytes of the file: the verification has just read the same.
	log, err := readRegular(f.root, FileLog)
	if err != nil {
		return fault("export", FileLog, err)
	}
	files[FileLog] = give(log)
	verdict, err := printed(rep)
	files[fileVerdict] = give(verdict)
	return err
}

// errNoLog is the error for the artifacts of a folder whose log cannot be read.
var errNoLog = errors.New("the log cannot be read")

// artifacts returns the artifacts as the log produces them now.
func (f *Folder) artifacts(ctx context.Context) ([]artifact, error) {
	if f.log == nil {
		return nil, errNoLog
	}
	p, err := f.projector(ctx)
	if err != nil {
		return nil, err
	}
	return p.all()
}

// printable returns an error if an artifact cannot be printed.
func printable(list []artifact) error {
	for _, a := range list {
		if _, err := a.data(); err != nil {
			return err
		}
	}
	return nil
}

// collectDir adds the regular files below a folder. Leftovers of crashes and locks are not part of
// the run.
func (f *Folder) collectDir(dir string, files map[string]func() ([]byte, error)) error {
	err := fs.WalkDir(f.root.FS(), dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != dir && name == "tmp" {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || name == lockName || strings.HasSuffix(name, ".tmp") {
			return nil
		}
		if !plainName(path) {
			return wrong(metier.Denied, CodeFolderBad, filepath.Join(f.dir, filepath.FromSlash(path)), "remove it; metier writes no such name",
				"the name %q could lead elsewhere when the archive is unpacked", path)
		}
		files[path] = func() ([]byte, error) { return readRegular(f.root, path) }
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault("export", filepath.Join(f.dir, dir), err)
}

// plainName reports whether a name means the same on every system. A backslash or a colon makes a
// path on some systems, and a line break can look like a second name.
func plainName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && r != '/' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
}

// Normalize formats a log so that two runs that did the same produce the same bytes: entries
// without times, hashes, and random ids. Each id is replaced by its kind and the number of its
// first use, in entries and in the blobs they refer to. Blob digests are those of the replaced
// content. If blobs is nil, digests stay unchanged.
func Normalize(ctx context.Context, log record.Log, blobs record.Blobs) ([]byte, error) {
	h, err := recall(ctx, "", log)
	if err != nil {
		return nil, err
	}
	n := newNormalizer(h, blobs)
	var out bytes.Buffer
	for _, f := range h.facts {
		if err := n.entry(ctx, &out, f); err != nil {
			return nil, fmt.Errorf("entry %d: %w", f.Seq, err)
		}
	}
	return out.Bytes(), nil
}
