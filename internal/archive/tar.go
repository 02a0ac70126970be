package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"strings"
)

// tar extracts a tar, which may be compressed.
func (x *extraction) tar(src *source, format Format) error {
	var stream io.Reader = io.NewSectionReader(src, 0, src.size)
	if format == TarGz {
		zipped, err := gunzip(stream, src.size, x.limits)
		if err != nil {
			return about("", CodeDamaged, err)
		}
		stream = zipped
	}
	blocks := &tarBlocks{r: stream, limits: x.limits}
	decoder := tar.NewReader(blocks)
	for {
		h, err := decoder.Next()
		switch {
		case blocks.err != nil:
			return about("", CodeDamaged, blocks.err)
		case errors.Is(err, io.EOF):
			return about("", CodeDamaged, blocks.finish())
		case errors.Is(err, tar.ErrInsecurePath):
			return about(blocks.entry.name, CodeName, err)
		case err != nil:
			return about("", CodeDamaged, err)
		case h.Typeflag == tar.TypeXGlobalHeader: // checked by blocks
			continue
		}
		if err := x.tarEntry(h, &blocks.entry, decoder); err != nil {
			return err
		}
	}
}

func (x *extraction) tarEntry(h *tar.Header, e *tarEntry, content io.Reader) error {
	if h.Name != e.name || h.Size != e.size || h.Mode != e.mode || (h.Typeflag == tar.TypeDir) != e.folder {
		return failf(CodeAmbiguous, e.name, "two readers find different files in the archive; pack the files again")
	}
	// GNU tar and others begin each name with "./" if they pack the folder ".".
	name := strings.TrimPrefix(e.name, "./")
	if e.folder && (name == "" || name == ".") {
		return nil // the folder itself
	}
	path := name
	if e.folder {
		path, _ = cut(name)
	}
	if err := x.admit(path, e.folder); err != nil {
		return about(e.name, CodeName, err)
	}
	if e.folder {
		return x.folder(path)
	}
	return x.file(path, e.mode&modeExecute != 0, e.size, -1, content)
}

// gunzip decompresses a gzip file that must have one member, and nothing after it.
func gunzip(r io.Reader, size int64, l Limits) (io.Reader, error) {
	packed := bufio.NewReader(r) // a byte reader, from which gzip reads no more than it needs
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &member{z: z, packed: packed, size: size, limits: l}, nil
}

// member is the only member of a gzip file.
type member struct {
	z      *gzip.Reader
	packed *bufio.Reader
	size   int64 // of the gzip file
	n      int64 // bytes read
	limits Limits
}

func (m *member) Read(p []byte) (int, error) {
	n, err := m.z.Read(p)
	m.n += int64(n)
	if bomb := m.limits.inflated(m.n, m.size); bomb != nil {
		return 0, bomb
	}
	if errors.Is(err, io.EOF) {
		switch _, more := m.packed.Peek(1); {
		case more == nil:
			return 0, failf(CodeAmbiguous, "", "the gzip file has data after its end, or several members; compress the tar again")
		case !errors.Is(more, io.EOF):
			return 0, more
		}
	}
	return n, err
}
