// Package entry holds what file-based sources share: it turns the first bytes of a SKILL.md into a
// Head, and the bytes of a file into a File.
package entry

import (
	"bytes"

	"metier"
	"metier/internal/digest"
	"metier/internal/sniff"
	"metier/skillmd"
)

// Steps are the numbers of bytes of a SKILL.md to read, in turn, until its frontmatter is complete.
// The first is nearly always enough.
var Steps = []int{4 << 10, 16 << 10, skillmd.MaxHead}

// FileNames returns the file names that make a folder a skill, in order of preference.
func FileNames(lowerToo bool) []string {
	if lowerToo {
		return []string{"SKILL.md", "skill.md"}
	}
	return []string{"SKILL.md"}
}

// Fill sets the fields of h from the first bytes of a SKILL.md. complete means that data is the
// whole file. If more bytes are needed, it reports false and sets nothing.
func Fill(h *metier.Head, data []byte, complete bool) (enough bool) {
	full := len(data) >= skillmd.MaxHead // the caller has no more to give, and the file may still go on
	front, body, enough, diags := skillmd.ParseHead(data, complete && !full)
	complete = complete || full
	if !enough {
		return false
	}
	described := front.HasDescription
	if !described && !complete {
		return false // the first paragraph may stand in, and is further down
	}
	h.Front = front
	for _, d := range diags {
		if d.Path == "" {
			d.Path = h.Location
		}
		h.Diagnostics = append(h.Diagnostics, d)
		switch {
		case d.Code == skillmd.CodeEmptyFile:
			h.Empty = true
		case d.Code == skillmd.CodeNoFrontmatter:
			h.Plain = true
		case d.Severity == skillmd.Error:
			h.Broken = true
		}
	}
	// A file without frontmatter has not been checked yet. Its first paragraph becomes the
	// description, so it has to be text.
	if i := bytes.IndexByte(data, 0); h.Plain && i >= 0 {
		h.Broken = true
		h.Diagnostics = append(h.Diagnostics, metier.Diagnostic{Severity: skillmd.Error, Code: skillmd.CodeNUL,
			Detail: "NUL byte; is this a text file?", Path: h.Location, Line: 1 + bytes.Count(data[:i], []byte("\n")), Column: i - bytes.LastIndexByte(data[:i], '\n')})
	}
	if !described && !h.Broken && body <= len(data) {
		h.FirstParagraph = skillmd.FirstParagraph(data[body:])
	}
	return true
}

// Bad returns a Head that represents something unusable.
func Bad(path, location, code, detail string) metier.Head {
	return metier.Head{Path: path, Kind: metier.KindSkill, Broken: true,
		Diagnostics: []metier.Diagnostic{{Severity: skillmd.Error, Code: code, Detail: detail, Path: location}}}
}

// Limits on how much of a file is inspected.
const (
	SniffBytes   = sniff.Bytes // text or binary
	shebangBytes = 256
)

// Facts sets Text and Shebang from the first bytes of a file: at least SniffBytes, or the whole
// file. more reports whether the file continues.
func Facts(f *metier.File, first []byte, more bool) {
	if bytes.HasPrefix(first, []byte("#!")) {
		line, _, _ := bytes.Cut(first[:min(len(first), shebangBytes)], []byte("\n"))
		f.Shebang = string(bytes.ToValidUTF8(bytes.TrimRight(line, "\r"), []byte("\uFFFD")))
	}
	f.Text = sniff.Text(first, more)
}

// Tree returns the digest over all files.
func Tree(files []metier.File) metier.Digest {
	entries := make([]digest.Entry, len(files))
	for i, f := range files {
		mode := digest.ModeFile
		if f.Exec {
			mode = digest.ModeExec
		}
		entries[i] = digest.Entry{Path: f.Path, Mode: mode, Digest: string(f.Digest)}
	}
	return metier.Digest(digest.Tree(entries))
}
