package install_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
)

const agentPluginHead = `{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "acme.tools"`

// plugins returns the plugin of each skill in the lock.
func plugins(s *install.Store) map[string]string {
	out := map[string]string{}
	for name, e := range s.Lock().Skills {
		out[name] = e.Plugin
	}
	return out
}

// fromEverywhere calls do with the same files as a folder, an archive, an archive with a folder around
// them, and a repository.
func fromEverywhere(t *testing.T, files map[string]string, do func(t *testing.T, p place, s *install.Store, r install.Request)) {
	t.Helper()
	wrapped := map[string]string{}
	for name, text := range files {
		wrapped["box/"+name] = text
	}
	for name, source := range map[string]func(*testing.T, place) (install.Source, install.Options){
		"folder": func(_ *testing.T, p place) (install.Source, install.Options) {
			p.write(files)
			return install.Source{Kind: install.Folder, Location: p.in}, install.Options{}
		},
		"archive": func(t *testing.T, p place) (install.Source, install.Options) {
			return p.archived("plugin.zip", zipOf(t, files)), install.Options{}
		},
		"wrapped": func(t *testing.T, p place) (install.Source, install.Options) {
			return p.archived("plugin.zip", zipOf(t, wrapped)), install.Options{}
		},
		"git": func(t *testing.T, _ place) (install.Source, install.Options) {
			o := newOrigin(t)
			o.commit(files)
			return o.source("", ""), install.Options{Env: o.env()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			src, o := source(t, p)
			do(t, p, p.openWith(o), install.Request{Source: src, All: true})
		})
	}
}

func TestPrepare_InstallsSkillsOfAnAgentPlugin(t *testing.T) {
	t.Parallel()
	fromEverywhere(t, map[string]string{
		"plugin.json":         agentPluginHead + `, "displayName": "Tools", "theme": 1, "extensions": {"com.example.client": {}}}`,
		"skills/pdf/SKILL.md": skill("pdf", ""), "skills/docx/SKILL.md": skill("docx", ""), "skills/docx/plugin.json": "{",
		"mcp.json": "{}", "bin/run": "#!/bin/sh\n",
	}, func(t *testing.T, p place, s *install.Store, r install.Request) {
		plan, err := p.prepare(s, r)
		apply(t, plan, err)
		if diff := cmp.Diff(map[string]string{"pdf": "acme.tools", "docx": "acme.tools"}, plugins(s)); diff != "" {
			t.Errorf("plugins (-want +got):\n%s", diff)
		}
		notes := strings.Join(plan.Notes, "\n")
		for _, want := range []string{`plugin.json" has unknown fields, which were ignored: "theme"`, `plugin "acme.tools" also contains what metier does not install: MCP servers, extensions of clients, programs`} {
			if !strings.Contains(notes, want) {
				t.Errorf("the notes lack %q:\n%s", want, notes)
			}
		}
		if got, _, err := install.ReadProvenance(t.Context(), filepath.Join(p.dir, "pdf"), p.lock); got.Plugin != "acme.tools" || err != nil {
			t.Errorf("the provenance has the plugin %q, %v", got.Plugin, err)
		}
		if _, err := os.Lstat(filepath.Join(p.dir, "mcp.json")); err == nil {
			t.Error("mcp.json was installed")
		}
		plan, err = s.Update(t.Context(), nil, false, defaults(t))
		apply(t, plan, err)
		if diff := cmp.Diff(map[string]string{"pdf": "acme.tools", "docx": "acme.tools"}, plugins(s)); diff != "" {
			t.Errorf("plugins after an update (-want +got):\n%s", diff)
		}
	})
}

func TestPrepare_InstallsSkillsOfAMarketplace(t *testing.T) {
	t.Parallel()
	fromEverywhere(t, map[string]string{
		".claude-plugin/marketplace.json": `{"name": "m", "owner": {"name": "o"}, "metadata": {"pluginRoot": "./plugins"}, "plugins": [
			{"name": "documents", "source": "./", "strict": false, "skills": ["./skills/pdf", "skills/gone"]},
			{"name": "all", "source": "./", "skills": "./skills/"},
			{"name": "review", "source": "./plugins/review"},
			{"name": "rooted", "source": "rooted", "hooks": {"PreToolUse": []}},
			{"name": "far", "source": {"source": "github", "repo": "acme/far", "ref": "v1"}},
			{"name": "farther", "source": {"source": "git-subdir", "url": "https://git.example.com/far.git", "path": "a/b", "ref": "main", "sha": "0123456789012345678901234567890123456789"}},
			{"name": "npm", "source": {"source": "npm", "package": "x"}},
			{"name": "odd", "source": {"source": "url", "url": "https://git.example.com/x.git;rm -rf ~"}}]}`,
		"skills/pdf/SKILL.md": skill("pdf", ""), "skills/docx/SKILL.md": skill("docx", ""), "loose/SKILL.md": skill("loose", ""),
		"plugins/review/.claude-plugin/plugin.json": `{"name": "review", "commands": "./more", "agents": ["./a.md", "./b.md"]}`, "plugins/review/skills/look/SKILL.md": skill("look", ""), "plugins/review/hooks/hooks.json": "{}",
		"plugins/rooted/skills/deep/SKILL.md": skill("deep", ""),
	}, func(t *testing.T, p place, s *install.Store, r install.Request) {
		plan, err := p.prepare(s, r)
		apply(t, plan, err)
		if diff := cmp.Diff(map[string]string{"pdf": "documents", "docx": "all", "loose": "", "look": "review", "deep": "rooted"}, plugins(s)); diff != "" {
			t.Errorf("plugins (-want +got):\n%s", diff)
		}
		notes := strings.Join(plan.Notes, "\n")
		for _, want := range []string{
			`plugin "far" is in another source, and was not fetched: 'metier add acme/far@v1'`,
			`plugin "farther" is in another source, and was not fetched: 'metier add https://git.example.com/far.git@0123456789012345678901234567890123456789#a/b'`,
			`plugin "npm" is in a source that is not supported: `, `plugin "odd" is in a source that is not supported: `,
			`plugin "review" also contains what metier does not install: commands, agents, hooks`, `plugin "rooted" also contains what metier does not install: hooks`,
			"plugins name folders without a skill: ", `skills/gone"`,
		} {
			if !strings.Contains(notes, want) {
				t.Errorf("the notes lack %q:\n%s", want, notes)
			}
		}
	})
}

func TestPrepare_RefusesManifestsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const claude, market = "skills/.claude-plugin/plugin.json", ".claude-plugin/marketplace.json"
	for name, c := range map[string]struct{ file, text, about string }{
		"JSON":             {market, "{\n  \"plugins\": [\n    {,\n", `".claude-plugin/marketplace.json": line 3, column 6: invalid character ','`},
		"cut":              {claude, `{"name": "x"`, `"skills/.claude-plugin/plugin.json": line 1, column 12: unexpected end of JSON input`},
		"type":             {"plugin.json", "[]", `"plugin.json": line 1, column 1: `},
		"null":             {claude, "null", "it is not a JSON object"},
		"no list":          {market, `{"plugins": {}}`, "plugins must be a list of objects"},
		"no name":          {market, `{"plugins": [{"name": "a", "source": "./"}, {"source": "./b"}]}`, "plugins[1]: name is missing"},
		"source outside":   {market, `{"plugins": [{"name": "a", "source": "../b"}]}`, `plugins[0].source has "../b", which is not a path in the folder of the plugin`},
		"source absolute":  {market, `{"plugins": [{"name": "a", "source": "/etc"}]}`, `plugins[0].source has "/etc"`},
		"root outside":     {market, `{"metadata": {"pluginRoot": "./x/../.."}, "plugins": [{"name": "a", "source": "b"}]}`, `metadata.pluginRoot has "./x/../.."`},
		"skills outside":   {market, `{"plugins": [{"name": "a", "source": "./", "skills": ["./x", "./../../y"]}]}`, `plugins[0]: skills has "./../../y"`},
		"commands outside": {claude, `{"name": "a", "commands": "../x"}`, `commands has "../x"`},
		"backslash":        {claude, `{"name": "a", "agents": ["..\\x"]}`, `agents has "..\x"`},
		"control":          {claude, `{"name": "a\u001b[2J"}`, "has characters that cannot be shown"},
		"agent name":       {"plugin.json", `{"$schema": "https://agent-plugins.org/schemas/1.1.0/plugin.schema.json", "name": "A"}`, "name is missing, or is not 1 to 64 lowercase letters"},
		"agent field":      {"plugin.json", agentPluginHead + `, "version": 1}`, "version must be text"},
		"agent author":     {"plugin.json", agentPluginHead + `, "author": "me"}`, "author must be an object of texts"},
		"agent version":    {"plugin.json", `{"$schema": "https://agent-plugins.org/schemas/9.0.0/plugin.schema.json", "name": "a"}`, "the supported versions of Agent Plugins are 1.0.0 and 1.1.0"},
		"large":            {"plugin.json", `{"name": "` + strings.Repeat("x", 4<<20) + `"}`, "it cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"skills/pdf/SKILL.md": skill("pdf", ""), c.file: c.text})
			_, err := p.prepare(p.open(), p.request())
			if metier.CodeOf(err) != "plugin_invalid" || !strings.Contains(fmt.Sprint(err), c.about) {
				t.Errorf("Prepare: %v, want plugin_invalid about %q", err, c.about)
			}
			p.empty()
		})
	}
}

func TestPrepare_IgnoresAManifestOfAnotherKind(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"plugin.json": `{"id": "for-another-program"}`, "pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	plan, err := p.prepare(s, p.request())
	apply(t, plan, err)
	if diff := cmp.Diff([]string{`"plugin.json" was ignored: it has no $schema of Agent Plugins`}, plan.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestPrepare_ListsAMarketplaceWithoutSkills(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var entries []string
	for i := range 30 {
		entries = append(entries, fmt.Sprintf(`{"name": "p%d", "source": {"source": "github", "repo": "acme/p%d"}}`, i, i))
	}
	p.write(map[string]string{".claude-plugin/marketplace.json": `{"plugins": [` + strings.Join(entries, ",") + `]}`})
	_, err := p.prepare(p.open(), p.request())
	if text := fmt.Sprint(err); metier.CodeOf(err) != "source_without_skills" || !strings.Contains(text, "'metier add acme/p0'") || !strings.Contains(text, `10 more plugins are in other sources; see ".claude-plugin/marketplace.json"`) {
		t.Errorf("Prepare: %v", err)
	}
}

func TestUpdate_KeepsThePlugin(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := newOrigin(t)
	o.commit(map[string]string{"plugin.json": agentPluginHead + "}", "hooks/a.sh": "x", "skills/pdf/SKILL.md": skill("pdf", "1"), "skills/docx/SKILL.md": skill("docx", "1")})
	s := p.openWith(install.Options{Env: o.env()})
	plan, err := p.prepare(s, install.Request{Source: o.source("", ""), Skills: []string{"pdf"}})
	apply(t, plan, err)
	o.commit(map[string]string{"skills/pdf/SKILL.md": skill("pdf", "2")})
	plan, err = s.Update(t.Context(), nil, false, defaults(t))
	apply(t, plan, err)
	if diff := cmp.Diff(map[string]string{"pdf": "acme.tools"}, plugins(s)); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`plugin "acme.tools" also contains what metier does not install: hooks`}, plan.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
