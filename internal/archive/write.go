package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"
)

// mostRatio is the ratio up to which [Write] compresses. Data that could be compressed further is
// stored as it is, so that it is not mistaken for a bomb.
const mostRatio = 100

// dosEpoch is 1980-01-01 in the format of DOS, the earliest date of a zip file.
const dosEpoch = 1<<5 | 1

// Write writes an archive that [Extract] accepts with its default limits. The bytes depend only on
// the files and on the compression of the Go version that built the program: entries are sorted by
// path, and have the same time (the epoch of the format), no owner, and the mode 0644 or 0755.
//
// It fails for files that Extract would reject or ignore, and if a file does not have the size that
// it declares. After an error, w has an unspecified part of the archive.
func Write(ctx context.Context, w io.Writer, f Format, files []File) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	if err := checkFiles(files); err != nil {
		return err
	}
	var err error
	switch f {
	case Zip:
		err = writeZip(ctx, w, files)
	case Tar:
		err = writeTar(ctx, w, files)
	case TarGz:
		err = writeTarGz(ctx, w, files)
	default:
		return failf(CodeUnknownFormat, "", "the format %q is unknown; use zip, tar.gz, or tar", f)
	}
	return about("", CodeIO, err)
}

func checkFiles(files []File) error {
	l := Limits{}.withDefaults()
	switch {
	case len(files) == 0:
		return failf(CodeEmpty, "", "there are no files to pack")
	case len(files) > l.Files:
		return failf(CodeTooLarge, "", "there are more than %d files; pack fewer", l.Files)
	}
	paths, total := tree{}, int64(0)
	for _, f := range files {
		if err := l.checkPath(f.Path); err != nil {
			return err
		}
		if err := paths.add(f.Path, false); err != nil {
			return err
		}
		if ofMacOS(f.Path) {
			return failf(CodeName, f.Path, "macOS uses this name for its own files, which are not extracted; leave it out or rename it")
		}
		total += f.Size
		switch {
		case f.Size < 0:
			return failf(CodeIO, f.Path, "its size is negative")
		case f.Size > l.FileBytes:
			return failf(CodeTooLarge, f.Path, "it is larger than %d bytes", l.FileBytes)
		case total > l.Bytes:
			return failf(CodeTooLarge, f.Path, "the files have more than %d bytes together", l.Bytes)
		}
	}
	return nil
}

// copyTo writes the content of a file, which must have its size.
func (f *File) copyTo(ctx context.Context, w io.Writer) (err error) {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer func() {
		if closing := content.Close(); err == nil {
			err = closing
		}
	}()
	buf := make([]byte, 32<<10)
	for left := f.Size; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := content.Read(buf)
		if left -= int64(n); left < 0 || left > 0 && errors.Is(err, io.EOF) {
			return fmt.Errorf("it does not have the %d bytes that it had before; pack it when no program changes it", f.Size)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (f *File) mode() int64 {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

func writeZip(ctx context.Context, w io.Writer, files []File) error {
	z := zip.NewWriter(w)
	deflate, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
	if err != nil {
		return err
	}
	for i := range files {
		if err := files[i].zip(ctx, z, deflate); err != nil {
			return about(files[i].Path, CodeIO, err)
		}
	}
	return z.Close()
}

// zip compresses a file before it writes the header, so that the header has its size.
func (f *File) zip(ctx context.Context, z *zip.Writer, deflate *flate.Writer) error {
	var packed bytes.Buffer
	deflate.Reset(&packed)
	sum := crc32.NewIEEE()
	if err := f.copyTo(ctx, io.MultiWriter(deflate, sum)); err != nil {
		return err
	}
	if err := deflate.Close(); err != nil {
		return err
	}
	size := int64(packed.Len())
	h := &zip.FileHeader{
		Name: f.Path, Method: zip.Deflate, Flags: flagUTF8, CRC32: sum.Sum32(),
		CreatorVersion: systemUnix<<8 | 20, ReaderVersion: 20, ExternalAttrs: uint32(modeFile|f.mode()) << 16,
		CompressedSize64: uint64(size), UncompressedSize64: uint64(f.Size),
	}
	h.ModifiedDate = dosEpoch //lint:ignore SA1019 CreateRaw does not use Modified
	store := size >= f.Size || size*mostRatio < f.Size
	if store {
		h.Method, h.CompressedSize64 = zip.Store, h.UncompressedSize64
	}
	w, err := z.CreateRaw(h)
	if err != nil {
		return err
	}
	if !store {
		_, err = packed.WriteTo(w)
		return err
	}
	again := crc32.NewIEEE()
	if err := f.copyTo(ctx, io.MultiWriter(w, again)); err != nil {
		return err
	}
	if again.Sum32() != h.CRC32 {
		return errors.New("it changed while it was packed; pack it when no program changes it")
	}
	return nil
}

func writeTar(ctx context.Context, w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	for i := range files {
		f := &files[i]
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: f.mode(), ModTime: time.Unix(0, 0)}
		if err := t.WriteHeader(h); err != nil {
			return about(f.Path, CodeIO, err)
		}
		if err := f.copyTo(ctx, t); err != nil {
			return about(f.Path, CodeIO, err)
		}
	}
	return t.Close()
}

// writeTarGz compresses the whole archive before it writes it, because only then its ratio is known.
func writeTarGz(ctx context.Context, w io.Writer, files []File) error {
	var packed bytes.Buffer
	size, err := gzipTar(ctx, &packed, gzip.DefaultCompression, files)
	if err != nil {
		return err
	}
	if int64(packed.Len())*mostRatio < size {
		_, err = gzipTar(ctx, w, gzip.NoCompression, files)
		return err
	}
	_, err = packed.WriteTo(w)
	return err
}

// gzipTar returns the size of the tar.
func gzipTar(ctx context.Context, w io.Writer, level int, files []File) (int64, error) {
	z, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return 0, err
	}
	n := &counted{w: z}
	if err := writeTar(ctx, n, files); err != nil {
		return n.n, err
	}
	return n.n, z.Close()
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
