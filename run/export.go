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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"metier"
	"metier/record"
)

// ExportOptions for [Folder.Export]; nil means defaults.
type ExportOptions struct {
	// Unverified exports a record that does not verify, with what is wrong in
	// the archive's verify.json.
	Unverified bool
}

// Export writes the run as a zip archive: <id>/events.jsonl, its blobs, the
// artifacts as the log prints them now, and verify.json. The archive is a
// function of the folder's record: entries are sorted, times are those of the
// log's last entry. A record that does not verify is refused (run_unverified)
// unless o says otherwise. Unzipped below a root, it can be opened.
func Export(ctx context.Context, f *Folder, w io.Writer, o *ExportOptions) error {
	if o == nil {
		o = &ExportOptions{}
	}
	rep, err := Verify(ctx, f)
	if err != nil {
		return err
	}
	if !rep.OK && !o.Unverified {
		detail := "the record of a child does not verify"
		if len(rep.Problems) > 0 {
			detail = rep.Problems[0].Code + ": " + rep.Problems[0].Detail
		}
		return wrong(metier.Drift, CodeUnverified, f.dir, "inspect it with `metier audit verify`; to export it anyway, set ExportOptions.Unverified", "the run does not verify: %s", detail)
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

// lastTime is the time of the last entry, to the second, never before what zip
// can say.
func (f *Folder) lastTime(ctx context.Context) (time.Time, error) {
	at := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
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
	// As it stands in the file: Verify has just read the same.
	log, err := os.ReadFile(filepath.Join(f.dir, FileLog))
	if err != nil {
		return fault("export", FileLog, err)
	}
	files[FileLog] = give(log)
	verdict, err := printed(rep)
	if err != nil {
		return err
	}
	files[fileVerdict] = give(verdict)
	p, err := f.projector(ctx)
	if err == nil {
		var list []artifact
		if list, err = p.all(); err == nil {
			for _, a := range list {
				files[a.name] = give(a.data)
			}
		}
	}
	if err != nil && rep.OK {
		return err
	}
	if err := f.collectDir(dirBlobs, files); err != nil {
		return err
	}
	return f.collectDir(dirChilds, files)
}

// collectDir adds the plain files below a folder; what a crash or a lock left
// is no part of the run.
func (f *Folder) collectDir(dir string, files map[string]func() ([]byte, error)) error {
	root := filepath.Join(f.dir, dir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && name == "tmp" {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || name == lockName || strings.HasSuffix(name, ".tmp") {
			return nil
		}
		rel, err := filepath.Rel(f.dir, path)
		if err != nil {
			return err
		}
		if !plainName(filepath.ToSlash(rel)) {
			return wrong(metier.Denied, CodeFolderBad, path, "remove it; metier writes no such name", "the name %q could lead elsewhere when the archive is unpacked", rel)
		}
		files[filepath.ToSlash(rel)] = func() ([]byte, error) { return readRegular(path) }
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault("export", root, err)
}

// plainName reports whether every system takes a name for what it is: a
// backslash or a colon is a path to some, a line break a second name to others.
func plainName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && r != '/' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
}

// Normalize prints a log so that two runs that did the same give the same
// bytes: entries without times, hashes and chance ids. Ids are replaced by
// their kind and the number of their first use, in entries and in the blobs
// they name; the digests of blobs are those of the replaced content. blobs may
// be nil: then digests stay as they are.
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
