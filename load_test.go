package metier_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/internal/digest"
	"metier/model"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
)

// idle is a model that is never called.
type idle struct{}

func (idle) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) { yield(model.Chunk{}, errors.New("asked")) }
}

// preview is the first request that a run on this session would send.
func (w *fixture) preview() model.Request {
	w.t.Helper()
	req, err := agent.Preview(w.t.Context(), agent.Config{Session: w.Session, Log: w.log, Blobs: w.blobs, Model: idle{}})
	if err != nil {
		w.t.Fatal(err)
	}
	return req
}

// req: A-112
func TestWholeFileIsInjected(t *testing.T) {
	t.Parallel()
	for end, added := range map[string]string{"no newline at the end": "\n", "a space and newlines at the end \n\n": ""} {
		file := "\ufeff---\r\nname: odd\r\ndescription: |\r\n  Use when testing.\r\nx-foo: [1, 2]\r\n---\r\n\r\n# Title\r\n\r\n---\r\n<b>&amp; $ARGUMENTS $1</b>\ttab  \r\n\r\n" + strings.Repeat("A line of a long file.\n", 50_000) + end
		w := opened(t, cfHarness, map[string]string{"skills/odd/SKILL.md": file})
		act, text := w.activate("odd")
		mentions(t, text, ">\n"+file+added+"\nSkill directory: ")
		if w.blob(act.Original) != file || act.Hash != digest.Bytes([]byte(file)) {
			t.Error("the recorded file is not the file")
		}
	}
}

// A session accepts skills from the operator and from its model, and records which came from whom,
// whether or not the caller names a source.
//
// req: A-013
func TestPreloadsAndTheModelsLoadsGoTogether(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, map[string]string{"skills/alpha/SKILL.md": skillFile("alpha", ""), "skills/beta/SKILL.md": skillFile("beta", "")})
		if _, err := w.Activate(t.Context(), "alpha", ""); err != nil {
			t.Fatal(err)
		}
		spec, offered := w.spec(settings.ToolLoadSkill)
		if !offered {
			t.Error("after a preload the model is offered no load_skill")
		}
		mentions(t, spec.Description+w.preview().System, "Use when testing beta.") // the model is still shown what it can load
		w.works("load_skill", args{"name": "beta"})
		var got []string
		for _, e := range events[event.SkillActivated](w) {
			got = append(got, e.Name+" "+e.ActivationSource)
		}
		if want := []string{"alpha cli-preload", "beta model-tool"}; !slices.Equal(got, want) {
			t.Errorf("activated %q, want %q", got, want)
		}
	})
}

// contextElement is the element around an activation.
type contextElement struct {
	XMLName xml.Name `xml:"skill_context"`
	Name    string   `xml:"name,attr"`
	Source  string   `xml:"source,attr"`
	Digest  string   `xml:"digest,attr"`
	Text    string   `xml:",chardata"`
}

// req: A-116
func TestBlockNamesSkillAndSource(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		odd := `a"b <c> & 'd'`
		w := opened(t, profile, map[string]string{
			"skills/deep/unit/SKILL.md": "---\nname: '" + strings.ReplaceAll(odd, "'", "''") + "'\ndescription: Use when testing.\n---\nPlain body.\n",
			"skills/R&D <1>/SKILL.md":   skillFile("rd", "Other body.\n"),
		})
		w.set.Activate.Content = settings.ContentBody // so that the file's own frontmatter does not have to be XML
		w.open()
		_, text := w.activate(odd)
		var el contextElement
		if err := xml.Unmarshal([]byte(text), &el); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if el.Name != odd || el.Source != "/workspace/skills/deep/unit/SKILL.md" || !strings.HasSuffix(text, "</skill_context>\n") {
			t.Errorf("%+v in\n%s", el, text)
		}
		mentions(t, el.Text, "\nPlain body.\n", "\nSkill directory: /workspace/skills/deep/unit\n", "\nRelative paths in this skill resolve against that directory unless stated otherwise.\n")
		mentions(t, text, `name="a&quot;b &lt;c&gt; &amp; &#39;d&#39;"`)
		silent(t, text, w.dir)

		_, text = w.activate("rd") // the path as tools accept it, and escaped in the attribute
		mentions(t, text, "Skill directory: /workspace/skills/R&D <1>\n", `source="/workspace/skills/R&amp;D &lt;1&gt;/SKILL.md"`)

		req := w.preview()
		if len(req.Messages) == 0 || !strings.HasPrefix(req.Messages[0].Text(), "Configured skills context:\n<skill_context ") {
			t.Errorf("first message: %+v", req.Messages)
		}
	})
}

// A root outside of the workspace has a sandbox path too.
//
// req: A-116
func TestBlockShowsTheSandboxFormOfARootElsewhere(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		for target, want := range map[string]string{"": "/skills/far", "/more": "/more/deep/far"} {
			w := newFixture(t, profile, nil)
			elsewhere := newFixture(t, profile, map[string]string{"skills/deep/far/SKILL.md": skillFile("far", "Far body.\n")})
			m := elsewhere.mount("skills", policy.Project)
			m.Target = target
			w.roots = []metier.Mount{m}
			w.open()
			_, text := w.activate("far")
			mentions(t, text, `source="`+want+`/SKILL.md"`, "\nSkill directory: "+want+"\n")
			silent(t, text, w.dir, elsewhere.dir)
		}
		w := newFixture(t, profile, map[string]string{"skills/small/skill.md": skillFile("small", "Small body.\n")})
		w.set.Discover.FileNames = settings.FileNamesLower
		w.open()
		_, text := w.activate("small")
		mentions(t, text, `source="/workspace/skills/small/skill.md"`)
	})
}

// req
func TestLoadToolNamesTheCatalog(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := newFixture(t, profile, map[string]string{
			"skills/beta/SKILL.md":   skillFile("beta", "b"),
			"skills/alpha/SKILL.md":  skillFile("alpha", "a"),
			"skills/quiet/SKILL.md":  skillFile("quiet", "q", "disable-model-invocation: true"),
			"skills/denied/SKILL.md": skillFile("denied", "d"),
			"skills/broken/SKILL.md": "---\nname: [\n---\n",
		})
		w.config = func(c *metier.Config) { c.Grants.Denied = []string{"denied"} }
		w.open()
		spec, _ := w.spec("load_skill")
		sch, props := schemaOf(t, spec)
		if want := []string{"file_path", "name"}; !slices.Equal(props, want) || !slices.Equal(sch.Required, []string{"name"}) {
			t.Errorf("schema %s", spec.Schema)
		}
		if d := cmp.Diff([]string{"string", "string"}, []string{sch.Properties["name"].Type, sch.Properties["file_path"].Type}); d != "" {
			t.Errorf("types of name and file_path: %s", d)
		}
		var listed []string
		cat := w.Catalog(t.Context())
		for _, e := range cat.Entries {
			listed = append(listed, e.Name)
		}
		if want := []string{"alpha", "beta"}; !slices.Equal(sch.Properties["name"].Enum, want) || !slices.Equal(listed, want) {
			t.Errorf("enum %v, catalog %v", sch.Properties["name"].Enum, listed)
		}
		if !cat.InTool() || !strings.HasSuffix(spec.Description, cat.Text) {
			t.Errorf("description %q", spec.Description)
		}
		mentions(t, spec.Description, "alpha", "Use when testing beta.")
		silent(t, spec.Description, "quiet", "denied", "broken")

		w.set.Catalog.Budget = cat.Tokens - 1 // a shortened catalog is there too
		w.open()
		spec, _ = w.spec("load_skill")
		if cut := w.Catalog(t.Context()); cut.Text == cat.Text || !strings.HasSuffix(spec.Description, cut.Text) {
			t.Errorf("catalog %q, description %q", cut.Text, spec.Description)
		}
	})
	for _, n := range []int{200, 201} { // with more, only the description has the names
		w := newFixture(t, cfHarness, nil)
		for i := range n {
			w.put(fmt.Sprintf("skills/s%03d/SKILL.md", i), skillFile(fmt.Sprintf("s%03d", i), ""))
		}
		w.set.Catalog.Budget = 0
		spec, _ := w.open().spec("load_skill")
		sch, _ := schemaOf(t, spec)
		if got, want := len(sch.Properties["name"].Enum), map[bool]int{true: n}[n <= 200]; got != want {
			t.Errorf("of %d names the schema has %d, want %d", n, got, want)
		}
		mentions(t, spec.Description, "s000", fmt.Sprintf("s%03d", n-1))
	}
}

// req: A-124
func TestCatalogElsewhereLeavesTheToolAlone(t *testing.T) {
	t.Parallel()
	for _, place := range []settings.CatalogPlace{settings.CatalogPlaceSystem, settings.CatalogPlaceNone} {
		w := newFixture(t, cfHarness, guide())
		w.set.Catalog.Place = place
		w.open()
		spec, offered := w.spec("load_skill")
		cat := w.Catalog(t.Context())
		sch, _ := schemaOf(t, spec)
		if !offered || cat.InTool() || cat.InSystem() != (place == settings.CatalogPlaceSystem) || (cat.Text != "") != cat.InSystem() {
			t.Errorf("%s: %v %+v", place, offered, cat)
		}
		silent(t, spec.Description, "guide")
		if hasEnum := len(sch.Properties["name"].Enum) > 0; hasEnum != cat.InSystem() {
			t.Errorf("%s: enum %v", place, sch.Properties["name"].Enum)
		}
		if place == settings.CatalogPlaceNone {
			silent(t, w.fails("skill_not_found", "load_skill", args{"name": "x"}).Text(), "guide")
		}
	}
}

// Without a load tool, the catalog is placed where the model can use it.
func TestCatalogIsNotLostWithTheLoadTool(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]settings.CatalogPlace{settings.ToolReadFile: settings.CatalogPlaceSystem, settings.ToolWriteFile: settings.CatalogPlaceNone} {
		w := newFixture(t, settings.DefaultProfile, guide())
		w.config = func(c *metier.Config) { c.Grants.Tools = []string{tool} }
		if cat := w.open().Catalog(t.Context()); cat.Place != want || cat.InSystem() != (want == settings.CatalogPlaceSystem) {
			t.Errorf("%s: %q %q", tool, cat.Place, cat.Text)
		}
	}
}

// req: E-055
func TestSkillToolsAreOfferedAsReads(t *testing.T) {
	t.Parallel()
	w := opened(t, project, guide())
	for _, name := range []string{"load_skill", resourceCall} {
		if s, offered := w.spec(name); !offered || s.Effect != policy.Read {
			t.Errorf("%s: offered %v, with effect %q", name, offered, s.Effect)
		}
	}
}

// req: A-125
func TestNoSkillsNoTool(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		for stage, files := range map[string]map[string]string{
			"empty":                           nil,
			"with what cannot be used":        {"skills/broken/SKILL.md": "---\nname: broken\n---\n"},
			"with what the model may not use": {"skills/quiet/SKILL.md": skillFile("quiet", "q", "disable-model-invocation: true")},
		} {
			w := newFixture(t, profile, files)
			if err := os.MkdirAll(w.at("skills"), 0o755); err != nil {
				t.Fatal(err)
			}
			w.open()
			if _, offered := w.spec("load_skill"); offered {
				t.Errorf("%s: load_skill is offered", stage)
			}
			for _, s := range w.Session.Offer(t.Context()) { // the operator may load a quiet skill, whose files can then be read
				if strings.Contains(s.Canonical, "skill") && s.Canonical != "search_skills" && s.Canonical != "list_skills" && files["skills/quiet/SKILL.md"] == "" {
					t.Errorf("%s: %s is offered", stage, s.Name)
				}
			}
			if cat := w.Catalog(t.Context()); cat.Text != "" {
				t.Errorf("%s: catalog %q", stage, cat.Text)
			}
		}
		w := opened(t, profile, guide())
		if _, offered := w.spec("load_skill"); !offered {
			t.Error("load_skill is not offered with a skill")
		}
	})
}

// req: A-126
func TestLoadGivesNameContentFolderAndFiles(t *testing.T) {
	t.Parallel()
	for _, content := range []settings.Content{settings.ContentRaw, settings.ContentMeta} {
		for _, list := range []int{0, 2} {
			files := guide()
			files["skills/guide/SKILL.md"] = skillFile("guide", "Read references/a.md when needed.\n", "license: MIT", "compatibility: git 2")
			w := newFixture(t, cfHarness, files)
			w.set.Activate.Content, w.set.Activate.ResourceList = content, list
			w.open()
			text := w.works("load_skill", args{"name": "guide"}).Text()
			mentions(t, text, `<skill_context name="guide" source="/workspace/skills/guide/SKILL.md"`, "Read references/a.md when needed.", "Skill directory: /workspace/skills/guide\n")
			if content == settings.ContentRaw {
				mentions(t, text, files["skills/guide/SKILL.md"])
			} else {
				mentions(t, text, "Skill: guide\nDescription: Use when testing guide.\nCompatibility: git 2\nLicense: MIT\n")
				silent(t, text, "---\nname")
			}
			if list == 0 {
				silent(t, text, "Files of this skill")
			} else {
				mentions(t, text, "- assets/logo.png (asset, binary, 4 bytes", "- references/a.md (reference, text, 16 bytes", "- and 2 more")
			}
		}
	}
}

// req: A-127
func TestDigestGoesToTheRecord(t *testing.T) {
	t.Parallel()
	for _, show := range []settings.ShowDigest{settings.ShowDigestYes, settings.ShowDigestNo} {
		w := newFixture(t, cfHarness, guide())
		w.set.Activate.ShowDigest = show
		w.open()
		text := w.works("load_skill", args{"name": "guide"}).Text() + w.works("load_skill", args{"name": "guide"}).Text() +
			w.works(resourceCall, args{"skill": "guide", "path": "assets/logo.png"}).Text()
		sum := digest.Bytes([]byte(guide()["skills/guide/SKILL.md"]))
		if e := one[event.SkillActivated](w); e.Hash != sum {
			t.Errorf("record: %+v", e)
		}
		var detail struct{ Hash string }
		if err := json.Unmarshal([]byte(w.blob(events[event.ToolResult](w)[0].Detail)), &detail); err != nil || detail.Hash != sum {
			t.Errorf("output: %+v, %v", detail, err)
		}
		if show == settings.ShowDigestYes {
			mentions(t, text, sum)
		} else {
			silent(t, text, "sha256:")
		}
	}
}

// req
func TestLoadedFilesStayInTheFolder(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		w.activate("guide")
		for _, p := range []string{"/etc/passwd", w.at("skills/guide/references/a.md"), "/workspace/skills/guide/references/a.md", "/skills/guide/references/a.md", "../guide/references/a.md", "references/../references/a.md", ".."} {
			o := w.fails("resource_path_invalid", "load_skill", args{"name": "guide", "file_path": p})
			silent(t, o.Text(), "canary-reference")
		}
		for _, outside := range []string{"secret", "skills/secret", "skills/guide-notes/references/a.md"} { // beside the root, in it, and in a sibling folder
			w.put(outside, "canary-secret")
			w.link(w.at(outside), "skills/guide/references/a.md")
			w.fails("resource_outside_root", "load_skill", args{"name": "guide", "file_path": "references/a.md"})
		}
		silent(t, w.said(), "canary-secret")
	})
}

// A root may allow links to another folder. They lead to skills there, not to
// files of a skill here, even if both folders have a skill of that name.
//
// req: A-131
func TestLoadSkill_FileLinkedToAllowedRoot(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := newFixture(t, profile, guide())
		w.put("shared/guide/references/a.md", "canary-secret")
		m := w.mount("skills", policy.Project)
		src, err := local.New(w.at("skills"), &local.Options{Symlinks: settings.SymlinksInBounds, AllowedRoots: []string{w.at("shared")}})
		if err != nil {
			t.Fatal(err)
		}
		m.Source = src
		w.roots = []metier.Mount{m}
		w.open()
		w.activate("guide")
		w.link(w.at("shared/guide/references/a.md"), "skills/guide/references/a.md")
		w.fails("resource_outside_root", "load_skill", args{"name": "guide", "file_path": "references/a.md"})
		silent(t, w.said(), "canary-secret")
	})
}

// req
func TestLoadedFilesAreRelativeToTheSkill(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		files := guide()
		files["skills/guide/references/u.md"] = "Grüße, 世界\r\n\ttab  \n"
		files["references/a.md"] = "of the workspace"
		w := opened(t, profile, files)
		o := w.works("load_skill", args{"name": "guide", "file_path": "references/a.md"})
		mentions(t, o.Text(), "canary-reference", `path="references/a.md"`)
		mentions(t, w.works("load_skill", args{"name": "guide", "file_path": "references/u.md"}).Text(), files["skills/guide/references/u.md"])
		mentions(t, w.works("load_skill", args{"name": "guide", "file_path": "references/deep/b.md"}).Text(), "two levels down\n")
		var kinds []string
		for _, e := range events[event.ResourceRead](w) {
			kinds = append(kinds, e.Path+" "+e.Status+" "+e.ContentKind)
		}
		if diff := cmp.Diff([]string{"references/a.md read text", "references/u.md read text", "references/deep/b.md read text"}, kinds); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		if n := len(events[event.SkillActivated](w)); n != 0 {
			t.Errorf("reading a file activated %d skills", n)
		}
	})
}

// req: A-141
func TestOperatorLoadsWhatUsersMayNot(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, map[string]string{"skills/inner/SKILL.md": skillFile("inner", "Inner body.\n", "user-invocable: false", "disable-model-invocation: true")})
		w.fails("skill_not_found", "load_skill", args{"name": "inner"})
		w.fails("skill_not_found", resourceCall, args{"skill": "inner", "path": "SKILL.md"})
		_, text := w.activate("inner")
		mentions(t, text, "Inner body.")
		if e := one[event.SkillActivated](w); e.ActivationSource != "cli-preload" || e.Name != "inner" {
			t.Errorf("record: %+v", e)
		}
	})
}

// req: A-175
func TestActiveSkillIsNotPutInTwice(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		w.works("load_skill", args{"name": "guide"})
		again := w.works("load_skill", args{"name": "guide"})
		mentions(t, again.Text(), "active already")
		w.activate("guide")
		if n := strings.Count(w.said(), "Read references/a.md when needed."); n != 1 {
			t.Errorf("the body was shown %d times", n)
		}
		one[event.SkillActivated](w)
		resumed := *w
		resumed.Session = w.session() // only the log, as after a restart
		resumed.calls = 100
		mentions(t, resumed.works("load_skill", args{"name": "guide"}).Text(), "active already")
		if n := strings.Count(resumed.said(), "Read references/a.md when needed."); n != 1 || len(resumed.State().Active) != 1 {
			t.Errorf("after the restart: %d bodies, active %+v", n, resumed.State().Active)
		}
		resumed.activate("guide")
		if n := strings.Count(resumed.said(), "Read references/a.md when needed."); n != 1 {
			t.Errorf("after the restart the operator's activation shows the body again: %d", n)
		}
		one[event.SkillActivated](&resumed)
	})
}

// req: A-182
func TestPreloadIsRawOrStripped(t *testing.T) {
	t.Parallel()
	file := "---\nname: two\ndescription: Use when testing.\n---\n\n# Body\n\n"
	const head, tail = "<skill_context name=\"two\" source=\"/workspace/skills/two/SKILL.md\">\n",
		"\nSkill directory: /workspace/skills/two\nRelative paths in this skill resolve against that directory unless stated otherwise.\n</skill_context>\n"
	for content, body := range map[settings.Content]string{settings.ContentRaw: file, settings.ContentBody: "\n# Body\n\n"} {
		w := newFixture(t, cfHarness, map[string]string{"skills/two/SKILL.md": file})
		w.set.Activate.Content, w.set.Activate.ShowDigest = content, settings.ShowDigestNo
		w.open()
		if _, text := w.activate("two"); text != head+body+tail {
			t.Errorf("%s: got\n%s", content, text)
		}
	}
}

// req: A-186
func TestBothWaysOfActivationGiveTheSame(t *testing.T) {
	t.Parallel()
	for profile, how := range map[string]struct {
		tool string
		args func(w *fixture) args
	}{
		keen:      {"read_file", func(w *fixture) args { return args{"path": w.at("skills/guide/SKILL.md")} }},
		cfHarness: {"load_skill", func(*fixture) args { return args{"name": "guide"} }},
	} {
		w := opened(t, profile, guide())
		text := w.works(how.tool, how.args(w)).Text()
		mentions(t, text, guide()["skills/guide/SKILL.md"], `<skill_context name="guide"`)
		e := one[event.SkillActivated](w)
		if e.Name != "guide" || e.Hash != digest.Bytes([]byte(guide()["skills/guide/SKILL.md"])) || e.ActivationSource != "model-tool" || e.Role != policy.Context || e.Call != "c1" {
			t.Errorf("%s: %+v", profile, e)
		}
		if st := w.State(); len(st.Active) != 1 || st.Active[0].SkillID != "skills:guide" {
			t.Errorf("%s: %+v", profile, st.Active)
		}
		mentions(t, w.works(how.tool, how.args(w)).Text(), "active already")
	}
}
