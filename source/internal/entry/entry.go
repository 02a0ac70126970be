// Package entry holds what sources of files share: how the first bytes of a
// SKILL.md become a Head, and the bytes of a file a File.
package entry

import (
	"bytes"

	"metier"
	"metier/internal/digest"
	"metier/internal/sniff"
	"metier/skillmd"
)

// Steps are how many bytes of a SKILL.md are read, one after the other, until
// its frontmatter is whole: nearly always the first is enough.
var Steps = []int{4 << 10, 16 << 10, skillmd.MaxHead}

// FileNames returns the names that make a folder a skill, first choice first.
func FileNames(lowerToo bool) []string {
	if lowerToo {
		return []string{"SKILL.md", "skill.md"}
	}
	return []string{"SKILL.md"}
}

// Fill sets what the first bytes of a SKILL.md say; complete means data is all
// of it. It reports false, with nothing set, when more bytes are needed.
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
	// What has no frontmatter was not looked at: its first paragraph would be the
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

// Bad returns a Head that stands for something that could not be used.
func Bad(path, location, code, detail string) metier.Head {
	return metier.Head{Path: path, Kind: metier.KindSkill, Broken: true,
		Diagnostics: []metier.Diagnostic{{Severity: skillmd.Error, Code: code, Detail: detail, Path: location}}}
}

// Limits of what is looked at in a file.
const (
	SniffBytes   = sniff.Bytes // text or binary
	shebangBytes = 256
)

// Facts sets Text and Shebang from the first bytes of a file (at least
// SniffBytes, or all; more tells which).
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
