// Package archive reads and writes skill archives: .zip (also named .skill), .tar.gz, and .tar.
//
// An archive is untrusted input. [Extract] accepts an archive only if every reader would find the
// same files in it, and fails for anything else: it never guesses, and never leaves out a file
// without reporting it. The standard library decodes the archive. Beside it, this package reads the
// raw structure on its own, and both must agree on every name and size.
//
// Only files, folders, and the execute permission are kept. Times, owners, comments, and extended
// attributes are metadata of an archive and are not extracted. Files that macOS adds for its own
// use (__MACOSX, .DS_Store, and names that begin with "._") are checked like all others, but listed
// in [Contents.Ignored] instead of being written. An archive in an archive is an ordinary file.
//
// These formats are accepted:
//
//   - zip: stored and deflated entries without gaps, from the first byte to the end record, with or
//     without data descriptors. The archive's comment must be text, because git archive writes one.
//     zip64 is rejected, because an archive within the limits does not need it.
//   - tar: V7, POSIX (ustar and pax), and GNU headers for files and folders, with long names. The
//     end mark and zero padding are required.
//   - gzip: one member that contains a tar, and nothing after it.
package archive

import (
	"bytes"
	"io"
	"strings"
)

// Format is a format of archives.
type Format string

// Formats of archives.
const (
	Zip   Format = "zip"
	TarGz Format = "tar.gz"
	Tar   Format = "tar"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Zip, TarGz, Tar} }

// suffixes are the ends of the names of archives.
var suffixes = []struct {
	suffix string
	format Format
}{{".zip", Zip}, {".skill", Zip}, {".tar.gz", TarGz}, {".tgz", TarGz}, {".tar", Tar}}

// FormatOf returns the format of an archive with this name.
func FormatOf(name string) (Format, bool) {
	for _, s := range suffixes {
		if strings.HasSuffix(strings.ToLower(name), s.suffix) {
			return s.format, true
		}
	}
	return "", false
}

// SniffLen is the number of bytes that [Sniff] needs.
const SniffLen = blockSize

// Sniff determines the format from the first [SniffLen] bytes of an archive. A gzip file is assumed
// to contain a tar.
func Sniff(head []byte) (Format, bool) {
	switch {
	case bytes.HasPrefix(head, []byte(localMark)), bytes.HasPrefix(head, []byte(endMark)):
		return Zip, true
	case bytes.HasPrefix(head, []byte("\x1f\x8b\x08")):
		return TarGz, true
	case len(head) >= blockSize && checksummed(head[:blockSize]):
		return Tar, true
	}
	return "", false
}

// Limits restricts what [Extract] accepts. A zero field means its default.
type Limits struct {
	Files     int   // entries, including folders and ignored files; default 2,000
	FileBytes int64 // bytes of one file; default 64 MiB
	Bytes     int64 // bytes of all files together; default 256 MiB
	Depth     int   // parts of a path; default 16
	NameBytes int   // bytes of a path; default 512
	Ratio     int64 // unpacked size divided by packed size, for data that unpacks to more than 1 MiB; default 200
}

// ratioFree is the size up to which any compression ratio is accepted.
const ratioFree = 1 << 20

func (l Limits) withDefaults() Limits {
	pick := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	files, depth, name := int64(l.Files), int64(l.Depth), int64(l.NameBytes)
	pick(&files, 2000)
	pick(&l.FileBytes, 64<<20)
	pick(&l.Bytes, 256<<20)
	pick(&depth, 16)
	pick(&name, 512)
	pick(&l.Ratio, 200)
	l.Files, l.Depth, l.NameBytes = int(files), int(depth), int(name)
	return l
}

// inflated fails if packed bytes unpacked to too many.
func (l Limits) inflated(unpacked, packed int64) error {
	if unpacked > ratioFree && unpacked/l.Ratio > packed {
		return failf(CodeTooLarge, "", "unpacks to more than %d times its size; pack the data uncompressed if it is real", l.Ratio)
	}
	return nil
}

// Entry is an extracted file.
type Entry struct {
	Path       string // slash-separated
	Size       int64  // bytes
	Executable bool   // a user may execute it
}

// Contents lists what was in an archive.
type Contents struct {
	Format  Format
	Entries []Entry  // the files, sorted by path
	Ignored []string // files and folders of macOS that were not extracted, sorted
}

// File is a file to put in an archive. Its content must have exactly Size bytes.
type File struct {
	Path       string // slash-separated
	Size       int64  // bytes
	Executable bool
	Open       func() (io.ReadCloser, error)
}
