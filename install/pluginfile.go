package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"metier"
	"metier/internal/namedfile"
	"metier/internal/termtext"
)

// The manifests of plugins.
const (
	agentPlugin  = "plugin.json"                // of an Agent Plugin
	claudePlugin = ".claude-plugin/plugin.json" // of a plugin for Claude Code
	marketplace  = ".claude-plugin/marketplace.json"
)

// Limits of manifests.
const (
	maxPluginFile = 4 << 20 // bytes
	maxPlugins    = 5_000   // of a marketplace
)

// agentPluginSchemas are the versions of Agent Plugins that are supported.
var agentPluginSchemas = []string{"https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "https://agent-plugins.org/schemas/1.1.0/plugin.schema.json"}

// agentPluginFields are the fields of the manifest of an Agent Plugin. Others are reported and ignored.
var agentPluginFields = []string{"$schema", "name", "displayName", "icon", "version", "description", "author", "homepage", "repository", "license", "keywords", "extensions"}

// pluginName matches the name of a plugin.
var pluginName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`)

// parts are what plugins contain besides skills: the field of a manifest, files and folders, and the text
// for users.
var parts = []struct {
	field string
	paths []string
	text  string
}{
	{"commands", []string{"commands"}, "commands"},
	{"agents", []string{"agents"}, "agents"},
	{"hooks", []string{"hooks"}, "hooks"},
	{"mcpServers", []string{".mcp.json", "mcp.json"}, "MCP servers"},
	{"lspServers", []string{".lsp.json"}, "LSP servers"},
	{"outputStyles", []string{"output-styles"}, "output styles"},
	{"workflows", []string{"workflows"}, "workflows"},
	{"themes", []string{"themes"}, "themes"},
	{"monitors", []string{"monitors"}, "monitors"},
	{"extensions", nil, "extensions of clients"},
	{"", []string{"bin"}, "programs"},
}

// isManifest reports whether a path of a source is that of a manifest.
func isManifest(p string) bool {
	return path.Base(p) == agentPlugin || p == marketplace || strings.HasSuffix(p, "/"+marketplace)
}

// addParts adds the paths of the parts of plugins that a path of a source can belong to.
func addParts(to map[string]bool, p string) {
	end := 0
	for name := range strings.SplitSeq(p, "/") {
		end += len(name) + 1
		for _, part := range parts {
			if slices.Contains(part.paths, name) {
				to[p[:end-1]] = true
			}
		}
	}
}

// badPlugin returns an error about a manifest.
func badPlugin(file, format string, args ...any) error {
	return &metier.Error{Path: file, Field: "Request.Source", Kind: metier.Invalid, Code: "plugin_invalid", Hint: "ask the author to fix the file, or install from the folder of one skill", Err: fmt.Errorf(format, args...)}
}

// readManifest reads a manifest. It returns nil if the file does not exist.
func readManifest(root *os.Root, file string) (map[string]json.RawMessage, error) {
	raw, err := namedfile.ReadIn(root, filepath.FromSlash(file), maxPluginFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, badPlugin(file, "it cannot be read: %w", err)
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	var out map[string]json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, badPlugin(file, "%s", jsonFault(raw, err))
	}
	if out == nil {
		return nil, badPlugin(file, "it is not a JSON object")
	}
	return out, nil
}

// jsonFault describes an error of JSON, with its line and column.
func jsonFault(raw []byte, err error) string {
	at := int64(0)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = e.Offset
	}
	before := raw[:min(max(at-1, 0), int64(len(raw)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return fmt.Sprintf("line %d, column %d: %s", line, column, termtext.Line(strings.TrimPrefix(err.Error(), "json: ")))
}

// text returns a field of a manifest that must be text; "" if it is missing.
func text(file string, fields map[string]json.RawMessage, key string) (string, error) {
	var s string
	if raw, ok := fields[key]; ok && json.Unmarshal(raw, &s) != nil {
		return "", badPlugin(file, "%s must be text", key)
	}
	return s, nil
}

// paths returns a field that is a path or a list of paths. Other values, such as the servers themselves,
// contain none. at is the folder that the paths are relative to. A path that leads out of it is an error.
func paths(file, at, key string, raw json.RawMessage) ([]string, error) {
	var one string
	var list []string
	if json.Unmarshal(raw, &one) == nil && raw[0] == '"' {
		list = []string{one}
	} else if json.Unmarshal(raw, &list) != nil {
		return nil, nil
	}
	for i, p := range list {
		clean, err := inside(file, key, p)
		if err != nil {
			return nil, err
		}
		list[i] = path.Join(at, clean)
	}
	return list, nil
}

// inside returns a path of a manifest without "./".
func inside(file, key, p string) (string, error) {
	clean := path.Clean(p)
	if p == "" || strings.ContainsAny(p, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(clean)) || path.IsAbs(p) {
		return "", badPlugin(file, "%s has %s, which is not a path in the folder of the plugin", key, termtext.Quote(p))
	}
	return clean, nil
}

// parseAgentPlugin reads the manifest of an Agent Plugin. A file that is not one is noted, and gives nil.
func (f *Found) parseAgentPlugin(file, root string, fields map[string]json.RawMessage) (*plugin, error) {
	schema, _ := text(file, fields, "$schema")
	if !strings.HasPrefix(schema, "https://agent-plugins.org/") {
		f.Notes = append(f.Notes, fmt.Sprintf("%s was ignored: it has no $schema of Agent Plugins", termtext.Quote(file)))
		return nil, nil
	}
	if !slices.Contains(agentPluginSchemas, schema) {
		return nil, &metier.Error{Path: file, Field: "Request.Source", Kind: metier.Unsupported, Code: "plugin_invalid", Hint: "update metier, or install from the folder of one skill", Err: fmt.Errorf("$schema is %s; the supported versions of Agent Plugins are 1.0.0 and 1.1.0", termtext.Quote(cutText(schema)))}
	}
	for _, key := range agentPluginFields {
		if err := checkField(file, fields, key); err != nil {
			return nil, err
		}
	}
	name, err := text(file, fields, "name")
	if err != nil || !pluginName.MatchString(name) || strings.Contains(name, "--") || strings.Contains(name, "..") {
		return nil, badPlugin(file, "name is missing, or is not 1 to 64 lowercase letters, digits, hyphens, and periods")
	}
	var unknown []string
	for key := range fields {
		if !slices.Contains(agentPluginFields, key) {
			unknown = append(unknown, key)
		}
	}
	if slices.Sort(unknown); len(unknown) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s has unknown fields, which were ignored: %s", termtext.Quote(file), few(unknown)))
	}
	return &plugin{name: name, root: root, fields: map[string]json.RawMessage{"extensions": fields["extensions"]}}, nil
}

// checkField checks the type of a field of an Agent Plugin. A wrong type of extensions is ignored, as the
// specification demands.
func checkField(file string, fields map[string]json.RawMessage, key string) error {
	var author map[string]string
	var words []string
	raw, ok := fields[key]
	switch {
	case !ok || key == "extensions":
		return nil
	case key == "keywords":
		if json.Unmarshal(raw, &words) != nil {
			return badPlugin(file, "keywords must be a list of texts")
		}
		return nil
	case key == "author":
		if json.Unmarshal(raw, &author) != nil {
			return badPlugin(file, "author must be an object of texts")
		}
		return nil
	}
	_, err := text(file, fields, key)
	return err
}

// parseClaudePlugin reads the manifest of a plugin for Claude Code, or an entry of a marketplace. The
// folder skills belongs to a plugin in any case.
func parseClaudePlugin(file, root string, fields map[string]json.RawMessage) (*plugin, error) {
	name, err := text(file, fields, "name")
	if err != nil {
		return nil, err
	}
	if name == "" || len(name) > 128 || termtext.Line(name) != name {
		return nil, badPlugin(file, "name is missing, is too long, or has characters that cannot be shown")
	}
	out := &plugin{name: name, root: root, fields: fields}
	for _, key := range []string{"skills", "commands", "agents", "hooks", "mcpServers", "lspServers", "outputStyles"} {
		list, err := paths(file, root, key, fields[key])
		if err != nil {
			return nil, err
		}
		if key == "skills" {
			out.named = list
		}
	}
	return out, nil
}
