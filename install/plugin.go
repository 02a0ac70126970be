package install

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/plural"
	"metier/internal/termtext"
)

// maxListed limits the plugins that notes list one by one.
const maxListed = 20

// plugin is a folder of a source with a manifest that groups skills and other parts.
type plugin struct {
	name   string
	root   string   // its folder, in the folder that is searched for skills
	named  []string // folders of skills, or with skills, that the manifest names
	fields map[string]json.RawMessage
	found  int // skills
}

// findPlugins finds the plugins and marketplaces of a source, assigns skills to them, and notes what is not
// installed. dir is the folder that was searched for skills.
func (f *Found) findPlugins(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var list []*plugin
	for _, top := range f.tops() {
		more, err := f.readMarketplace(root, top)
		if err != nil {
			return err
		}
		list = append(list, more...)
	}
	folders, isSkill := f.tops(), map[string]bool{}
	for _, sk := range f.Skills {
		isSkill[sk.ID.Path] = true
		for at := sk.ID.Path; at != "." && at != "/"; at = path.Dir(at) {
			folders = append(folders, at)
		}
	}
	for _, p := range list {
		folders = append(folders, p.root)
	}
	slices.Sort(folders)
	for _, at := range slices.Compact(folders) {
		p, err := f.readPlugin(root, at, isSkill[at])
		if err != nil {
			return err
		}
		if p != nil {
			list = merged(list, p)
		}
	}
	f.assign(list)
	f.noteParts(root, list)
	return nil
}

// tops returns the folders in which a marketplace or a plugin can begin, even without skills.
func (f *Found) tops() []string {
	if f.inner != "" {
		return []string{".", f.inner}
	}
	return []string{"."}
}

// merged adds a plugin to a list. An entry of a marketplace for the same folder gives it its fields.
func merged(list []*plugin, p *plugin) []*plugin {
	i := slices.IndexFunc(list, func(x *plugin) bool { return x.root == p.root && x.name == p.name })
	if i < 0 {
		return append(list, p)
	}
	x := list[i]
	p.named = append(p.named, x.named...)
	for key, raw := range x.fields {
		if _, ok := p.fields[key]; !ok && p.fields != nil {
			p.fields[key] = raw
		}
	}
	list[i] = p
	return list
}

// readPlugin reads the manifest of the plugin in a folder. It returns nil if the folder has no manifest. A plugin.json
// in the folder of a skill is a file of the skill.
func (f *Found) readPlugin(root *os.Root, at string, isSkill bool) (*plugin, error) {
	file := path.Join(at, claudePlugin)
	fields, err := readManifest(root, file)
	if err != nil {
		return nil, err
	}
	if fields != nil {
		return parseClaudePlugin(file, at, fields)
	}
	if isSkill {
		return nil, nil
	}
	file = path.Join(at, agentPlugin)
	if fields, err = readManifest(root, file); fields == nil || err != nil {
		return nil, err
	}
	return f.parseAgentPlugin(file, at, fields)
}

// readMarketplace reads the marketplace in a folder. It returns the plugins of the same source, and notes
// how to add the others.
func (f *Found) readMarketplace(root *os.Root, at string) ([]*plugin, error) {
	file := path.Join(at, marketplace)
	fields, err := readManifest(root, file)
	if fields == nil || err != nil {
		return nil, err
	}
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal(fields["plugins"], &entries); err != nil {
		return nil, badPlugin(file, "plugins must be a list of objects")
	}
	if len(entries) > maxPlugins {
		return nil, badPlugin(file, "it has more than %s", plural.Of(maxPlugins, "plugin"))
	}
	var meta struct{ PluginRoot string }
	_ = json.Unmarshal(fields["metadata"], &meta) // other values are descriptions
	var out []*plugin
	var others []string
	for i, e := range entries {
		what := fmt.Sprintf("plugins[%d]", i)
		var local string
		if json.Unmarshal(e["source"], &local) != nil || len(e["source"]) == 0 || e["source"][0] != '"' {
			name, err := text(file, e, "name")
			if err != nil {
				return nil, badPlugin(file, "%s: name must be text", what)
			}
			others = append(others, otherPlugin(name, e["source"]))
			continue
		}
		clean, err := inside(file, what+".source", cmp.Or(local, "."))
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(local, ".") && meta.PluginRoot != "" {
			base, err := inside(file, "metadata.pluginRoot", meta.PluginRoot)
			if err != nil {
				return nil, err
			}
			clean = path.Join(base, clean)
		}
		p, err := parseClaudePlugin(file, path.Join(at, clean), e)
		if e, ok := errors.AsType[*metier.Error](err); ok {
			return nil, badPlugin(file, "%s: %w", what, e.Err)
		}
		out = append(out, p)
	}
	f.noteSome(others, "more plugins are in other sources; see "+termtext.Quote(file))
	return out, nil
}

// otherPlugin describes a plugin of another source, which is not fetched, with the command that adds it.
func otherPlugin(name string, raw json.RawMessage) string {
	var s struct{ Source, Repo, URL, Path, Ref, SHA, Package string }
	_ = json.Unmarshal(raw, &s) // what it lacks is unknown
	name = termtext.Quote(cutText(name))
	location := s.Repo
	if s.Source != "github" {
		location = strings.TrimSuffix(s.URL, ".git") + ".git"
	}
	if ref := cmp.Or(s.SHA, s.Ref); ref != "" {
		location += "@" + ref
	}
	if s.Path != "" {
		location += "#" + path.Clean(s.Path)
	}
	src, err := Parse(location, "/", "")
	if err != nil || src.Local() || src.Kind != Git || !sourceForm.MatchString(location) {
		return fmt.Sprintf("plugin %s is in a source that is not supported: %s", name, termtext.Line(cutText(string(raw))))
	}
	return fmt.Sprintf("plugin %s is in another source, and was not fetched: 'metier add %s'", name, location)
}

// assign assigns each skill to the plugin that claims it most closely: by naming its folder, then by naming
// a folder around it, then by containing it in skills.
func (f *Found) assign(list []*plugin) {
	named, around := map[string]*plugin{}, map[string]*plugin{}
	for _, p := range slices.Backward(list) { // the first one stays
		around[path.Join(p.root, "skills")] = p
		for _, at := range p.named {
			named[at] = p
		}
	}
	f.plugins = map[metier.ID]*plugin{}
	for _, sk := range f.Skills {
		owner := around[path.Dir(sk.ID.Path)]
		for at := path.Dir(sk.ID.Path); at != "."; at = path.Dir(at) {
			if p := named[at]; p != nil {
				owner = p
				break
			}
		}
		if p := named[sk.ID.Path]; p != nil {
			owner = p
		}
		if owner == nil { // the plugin is one skill
			if i := slices.IndexFunc(list, func(p *plugin) bool { return p.root == sk.ID.Path }); i >= 0 {
				owner = list[i]
			}
		}
		if owner != nil {
			f.plugins[sk.ID] = owner
			owner.found++
		}
	}
}

// noteParts notes what plugins contain besides skills.
func (f *Found) noteParts(root *os.Root, list []*plugin) {
	around, noted := map[string]bool{}, map[string]bool{}
	for _, sk := range f.Skills {
		for at := sk.ID.Path; !around[at]; at = path.Dir(at) {
			around[at] = true
		}
	}
	var lines, empty, missing []string
	for _, p := range list {
		var other []string
		for _, part := range parts {
			at := func(name string) bool {
				return !noted[p.root] && f.contains(root, path.Join(p.root, name))
			}
			if len(p.fields[part.field]) > 0 || slices.ContainsFunc(part.paths, at) {
				other = append(other, part.text)
			}
		}
		noted[p.root] = true
		if len(other) > 0 {
			lines = append(lines, fmt.Sprintf("plugin %s also contains what metier does not install: %s", termtext.Quote(p.name), strings.Join(other, ", ")))
		}
		if p.found == 0 {
			empty = append(empty, p.name)
		}
		for _, at := range p.named {
			if !around[at] {
				missing = append(missing, at)
			}
		}
	}
	f.noteSome(lines, "more plugins contain other parts")
	if len(empty) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s without a skill of this source: %s", plural.Of(len(empty), "plugin"), few(empty)))
	}
	if len(missing) > 0 {
		f.Notes = append(f.Notes, "plugins name folders without a skill: "+few(missing))
	}
}

// noteSome notes the first lines, and how many there are more.
func (f *Found) noteSome(lines []string, more string) {
	f.Notes = append(f.Notes, lines[:min(len(lines), maxListed)]...)
	if n := len(lines) - maxListed; n > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d %s", n, more))
	}
}

// contains reports whether a source contains a part of a plugin.
func (f *Found) contains(root *os.Root, p string) bool {
	if f.Source.Kind == Git {
		return f.parts[path.Join(f.Source.Path, p)]
	}
	_, err := root.Lstat(filepath.FromSlash(p))
	return err == nil
}

// pluginOf returns the name of the plugin of a skill, or "".
func (f *Found) pluginOf(sk metier.Skill) string {
	if p := f.plugins[sk.ID]; p != nil {
		return p.name
	}
	return ""
}
