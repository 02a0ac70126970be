package server

import (
	"net/url"
	"path"
	"strings"

	"metier"
)

// Scheme is that of the addresses of skills: skill://SOURCE/PATH/FILE. It says
// where an entry stands here and nothing else; the first part is never looked
// up (SEP-2640, resource addresses).
const Scheme = "skill://"

// addressOf is the address of a skill's folder. Its last part has to be the
// name of the frontmatter; before it stand the label of the source and the path
// there, so that two skills of one name have two addresses, and neither changes
// when the other comes or goes.
func addressOf(id metier.ID, name string) string {
	parts := []string{id.Source}
	if p := path.Clean(id.Path); p != "." {
		parts = append(parts, strings.Split(p, "/")...)
	}
	if len(parts) == 1 || parts[len(parts)-1] != name {
		parts = append(parts, name)
	}
	return Scheme + escaped(parts)
}

func escaped(parts []string) string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = url.PathEscape(p)
	}
	return strings.Join(out, "/")
}

// below is the address of a file of a skill.
func below(folder, file string) string { return folder + "/" + escaped(strings.Split(file, "/")) }

// unescaped is a part of an address as text, false where it is none we write: a
// file has one address.
func unescaped(part string) (string, bool) {
	text, err := url.PathUnescape(part)
	return text, err == nil && text != "" && text != "." && text != ".." && !strings.ContainsAny(text, "/\x00") && url.PathEscape(text) == part
}

// mediaTypes by extension: what skills are made of. The table of the machine is
// not asked, since an answer must not depend on where the server runs.
var mediaTypes = map[string]string{
	".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".toml": "application/toml", ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".html": "text/html", ".htm": "text/html", ".css": "text/css",
	".xml": "application/xml", ".svg": "image/svg+xml", ".js": "text/javascript", ".mjs": "text/javascript", ".ts": "text/x-typescript", ".py": "text/x-python",
	".sh": "text/x-shellscript", ".bash": "text/x-shellscript", ".rb": "text/x-ruby", ".go": "text/x-go", ".rs": "text/x-rust", ".pl": "text/x-perl", ".sql": "application/sql",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf", ".zip": "application/zip",
	".woff2": "font/woff2", ".ttf": "font/ttf", ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

// mediaType is what a file is by its name, or else by whether it is text.
func mediaType(file string, text bool) string {
	switch m := mediaTypes[strings.ToLower(path.Ext(file))]; {
	case m != "":
		return m
	case text:
		return "text/plain"
	}
	return "application/octet-stream"
}
