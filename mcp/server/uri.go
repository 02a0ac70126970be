package server

import (
	"net/url"
	"path"
	"strings"

	"metier"
)

// Scheme is the prefix of skill URIs: skill://SOURCE/PATH/FILE. A URI only identifies an entry of
// this server. Its first part is never resolved as a host (SEP-2640, resource addresses).
const Scheme = "skill://"

// addressOf returns the URI of a skill's folder. The last part must be the frontmatter name. The
// source label and the path come before it, so that skills with the same name have different,
// stable URIs.
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

// below returns the URI of a file in a skill's folder.
func below(folder, file string) string { return folder + "/" + escaped(strings.Split(file, "/")) }

// unescaped decodes a part of a URI. It returns false if the encoding is not canonical, so that
// each file has one URI.
func unescaped(part string) (string, bool) {
	text, err := url.PathUnescape(part)
	return text, err == nil && text != "" && text != "." && text != ".." && !strings.ContainsAny(text, "/\x00") && url.PathEscape(text) == part
}

// mediaTypes maps the file extensions common in skills. The system's table is not used, so that
// responses do not depend on the host.
var mediaTypes = map[string]string{
	".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".toml": "application/toml", ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".html": "text/html", ".htm": "text/html", ".css": "text/css",
	".xml": "application/xml", ".svg": "image/svg+xml", ".js": "text/javascript", ".mjs": "text/javascript", ".ts": "text/x-typescript", ".py": "text/x-python",
	".sh": "text/x-shellscript", ".bash": "text/x-shellscript", ".rb": "text/x-ruby", ".go": "text/x-go", ".rs": "text/x-rust", ".pl": "text/x-perl", ".sql": "application/sql",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf", ".zip": "application/zip",
	".woff2": "font/woff2", ".ttf": "font/ttf", ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

// mediaType returns the media type by file extension, otherwise by whether the file is text.
func mediaType(file string, text bool) string {
	switch m := mediaTypes[strings.ToLower(path.Ext(file))]; {
	case m != "":
		return m
	case text:
		return "text/plain"
	}
	return "application/octet-stream"
}
