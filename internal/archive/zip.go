package archive

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"errors"
	"hash"
	"hash/crc32"
	"io"
)

// zip extracts a zip file. It checks all headers before it writes anything.
func (x *extraction) zip(src *source) error {
	entries, err := zipLayout{src, x.limits}.entries()
	if err != nil {
		return err
	}
	declared := int64(0)
	for i := range entries {
		e := &entries[i]
		path, folder := cut(e.name)
		if err := x.admit(path, folder); err != nil {
			return about(e.name, CodeName, err)
		}
		if err := e.check(folder); err != nil {
			return err
		}
		declared += e.size
		if e.size > x.limits.FileBytes || declared > x.limits.Bytes {
			return failf(CodeTooLarge, e.name, "the limits are %d bytes for a file and %d for all files", x.limits.FileBytes, x.limits.Bytes)
		}
	}
	decoder, err := decoderOf(src, entries)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		path, folder := cut(e.name)
		if folder {
			err = x.folder(path)
		} else {
			err = x.zipFile(decoder.File[i], e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *extraction) zipFile(f *zip.File, e *zipEntry) error {
	content, err := f.Open()
	if err != nil {
		return about(e.name, CodeDamaged, err)
	}
	defer content.Close()
	sum := crc32.NewIEEE()
	if err := x.file(e.name, e.attributes.executable(), e.size, e.packed, &hashed{content, sum}); err != nil {
		return err
	}
	if sum.Sum32() != e.crc { // the library ignores a checksum of zero
		return failf(CodeDamaged, e.name, "its checksum is wrong")
	}
	return nil
}

// hashed adds what is read to a checksum.
type hashed struct {
	r   io.Reader
	sum hash.Hash32
}

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.sum.Write(p[:n])
	return n, err
}

// check checks what an entry is.
func (e *zipEntry) check(folder bool) error {
	switch {
	case e.flags&flagsEncrypted != 0:
		return failf(CodeUnsupported, e.name, "it is encrypted; pack the files without a password")
	case e.flags&^(flagsLevel|flagDescriptor|flagUTF8) != 0:
		return failf(CodeUnsupported, e.name, "it has unknown flags %#04x; pack the files again", e.flags)
	case e.method != methodStore && e.method != methodDeflate:
		return failf(CodeUnsupported, e.name, "its compression method is %d; use deflate", e.method)
	case e.method == methodStore && e.packed != e.size:
		return failf(CodeAmbiguous, e.name, "it is stored, but its two sizes differ; pack the files again")
	case folder && (e.size != 0 || e.packed != 0 || e.crc != 0):
		return failf(CodeAmbiguous, e.name, "it is a folder with data; pack the files again")
	}
	return e.attributes.check(e.name, folder)
}

// decoderOf opens the archive with the standard library, which must find the same entries.
func decoderOf(src *source, entries []zipEntry) (*zip.Reader, error) {
	disagree := func(name string) error {
		return failf(CodeAmbiguous, name, "two readers find different files in the archive; pack the files again")
	}
	r, err := zip.NewReader(src, src.size)
	if err != nil {
		return nil, about("", CodeDamaged, err)
	}
	if len(r.File) != len(entries) {
		return nil, disagree("")
	}
	for i, f := range r.File {
		e := entries[i]
		data, err := f.DataOffset()
		if err != nil {
			return nil, about(e.name, CodeDamaged, err)
		}
		if f.Name != e.name || f.Method != e.method || f.CRC32 != e.crc || data != e.data ||
			f.CompressedSize64 != uint64(e.packed) || f.UncompressedSize64 != uint64(e.size) {
			return nil, disagree(e.name)
		}
	}
	r.RegisterDecompressor(zip.Deflate, inflate)
	return r, nil
}

// inflate decodes deflated data that must end where the entry ends.
func inflate(r io.Reader) io.ReadCloser {
	packed := bufio.NewReader(r) // a byte reader, from which flate reads no more than it needs
	return &inflater{flate.NewReader(packed), packed}
}

type inflater struct {
	io.ReadCloser
	packed *bufio.Reader
}

func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		switch _, more := i.packed.Peek(1); {
		case more == nil:
			err = failf(CodeAmbiguous, "", "it has data after its compressed content; pack the files again")
		case !errors.Is(more, io.EOF):
			err = more
		}
	}
	return n, err
}
