package install

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/internal/plural"
	"metier/internal/skillname"
	"metier/internal/termtext"
)

// discoverySchema identifies version 0.2.0 of the format of indexes.
const discoverySchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// Limits of an index.
const (
	maxIndex        = 8 << 20 // bytes
	maxIndexEntries = 10_000
	maxIndexFiles   = 2_000 // files of an entry of version 0.1
)

// The types of entries.
const (
	typeSkillFile = "skill-md"
	typeArchive   = "archive"
	typeFiles     = "files" // of version 0.1
)

// indexEntry is a skill in the index of a site.
type indexEntry struct {
	name, kind string
	at         *url.URL // of the artifact, or of the folder of the files
	digest     string   // of the artifact
	files      []string // of version 0.1, in the folder
	problem    string   // why it cannot be installed, or ""
}

// siteIndex is the index of a site.
type siteIndex struct {
	at      *url.URL
	entries []indexEntry
	notes   []string
}

// parseIndex reads an index. Without $schema, it has version 0.1. Unknown fields are ignored. An entry
// that cannot be installed is kept with its problem.
func parseIndex(raw []byte, at *url.URL) (siteIndex, error) {
	out := siteIndex{at: at}
	var doc struct {
		Schema json.RawMessage `json:"$schema"`
		Skills json.RawMessage `json:"skills"`
	}
	invalid := func(format string, args ...any) (siteIndex, error) {
		return out, metier.Fieldf(metier.Invalid, "Request.Source", "index_invalid", "report it to the operator of the site", "%s is not an index of skills: %s", shown(at), fmt.Sprintf(format, args...))
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return invalid("%s", termtext.Line(strings.TrimPrefix(err.Error(), "json: ")))
	}
	read := out.readFiles
	if doc.Schema != nil {
		var schema string
		if err := json.Unmarshal(doc.Schema, &schema); err != nil || schema != discoverySchema {
			return out, metier.Fieldf(metier.Unsupported, "Request.Source", "index_schema_unknown", "update metier, or install from another source", "%s has the unknown schema %s; the supported one is %s", shown(at), termtext.Line(cutText(string(doc.Schema))), discoverySchema)
		}
		read = out.readArtifact
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(doc.Skills, &entries); err != nil || entries == nil {
		return invalid("it has no list named skills")
	}
	if len(entries) > maxIndexEntries {
		return out, metier.Fieldf(metier.LimitReached, "Request.Source", "index_too_large", "install from a smaller index", "%s has more than %s entries", shown(at), plural.Thousands(maxIndexEntries))
	}
	seen := map[string]bool{}
	for i, raw := range entries {
		e := read(raw)
		switch {
		case e.name == "":
			e.name = fmt.Sprintf("number %d", i+1)
		case e.problem == "" && seen[e.name]:
			return invalid("it has two entries named %q", e.name)
		}
		seen[e.name] = true
		out.entries = append(out.entries, e)
	}
	return out, nil
}

// cutText limits what a message quotes from a site.
func cutText(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// checkEntry reports what is wrong with the name of an entry, or with its decoding.
func checkEntry(name string, err error) string {
	if err != nil {
		return termtext.Line(cutText(strings.TrimPrefix(err.Error(), "json: ")))
	}
	if bad := skillname.Problems(name, false, false); len(bad) > 0 {
		return termtext.Line(cutText(bad[0][1]))
	}
	if err := checkName(name); err != nil {
		return termtext.Line(err.Error())
	}
	return ""
}

// readArtifact reads an entry of version 0.2.
func (x siteIndex) readArtifact(raw json.RawMessage) indexEntry {
	var in struct{ Name, Type, URL, Digest string }
	err := json.Unmarshal(raw, &in)
	e := indexEntry{name: cutText(in.Name), kind: in.Type, digest: in.Digest}
	if e.problem = checkEntry(in.Name, err); e.problem != "" {
		return e
	}
	u, err := x.at.Parse(in.URL)
	switch {
	case in.Type != typeSkillFile && in.Type != typeArchive:
		e.problem = "its type " + termtext.Quote(cutText(in.Type)) + " is unknown"
	case in.URL == "" || err != nil || u.Opaque != "" || u.Host == "":
		e.problem = "its url is missing or invalid"
	case !digest.Valid(in.Digest):
		e.problem = "it has no valid digest"
	default:
		u.Fragment, u.RawFragment = "", ""
		e.at = u
	}
	return e
}

// readFiles reads an entry of version 0.1.
func (x siteIndex) readFiles(raw json.RawMessage) indexEntry {
	var in struct {
		Name  string
		Files []string
	}
	err := json.Unmarshal(raw, &in)
	e := indexEntry{name: cutText(in.Name), kind: typeFiles, files: in.Files}
	if e.problem = checkEntry(in.Name, err); e.problem != "" {
		return e
	}
	e.at = x.at.ResolveReference(&url.URL{Path: in.Name + "/"})
	hasSkill, listed := false, map[string]bool{}
	for _, f := range in.Files {
		if clean, err := confine.Clean(f); err != nil || clean != f {
			e.problem = termtext.Quote(cutText(f)) + " is not a path of a file in a skill"
			return e
		}
		if listed[f] {
			e.problem = termtext.Quote(cutText(f)) + " is listed twice"
			return e
		}
		hasSkill, listed[f] = hasSkill || isSkillFile(f), true
	}
	for _, f := range in.Files {
		for dir := path.Dir(f); dir != "."; dir = path.Dir(dir) {
			if listed[dir] {
				e.problem = termtext.Quote(cutText(dir)) + " is listed as a file and as a folder"
				return e
			}
		}
	}
	switch {
	case len(in.Files) > maxIndexFiles:
		e.problem = "it has more than " + plural.Of(maxIndexFiles, "file")
	case !hasSkill:
		e.problem = "its list of files has no SKILL.md"
	}
	return e
}
