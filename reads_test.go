package metier_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

const resourceCall = "read_skill_resource"

// guide is a root with one skill that has a text and a binary file.
func guide() map[string]string {
	return map[string]string{
		"docs/plan.md":                      "the plan of the repository\n",
		"skills/guide/SKILL.md":             skillFile("guide", "Read references/a.md when needed.\n"),
		"skills/guide/references/a.md":      "canary-reference",
		"skills/guide/references/twenty":    "12345678901234567890",
		"skills/guide/references/deep/b.md": "two levels down\n",
		"skills/guide/assets/logo.png":      "\x00\x9f\x92\x96",
	}
}

// both lists the profiles in which a row of system A has to hold.
var both = []string{cfHarness, settings.DefaultProfile}

func inBoth(t *testing.T, test func(t *testing.T, profile string)) {
	t.Helper()
	for _, p := range both {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// req: A-005
func TestRepositoryDocumentsAreNoSkillResources(t *testing.T) {
	t.Parallel()
	w := opened(t, cfHarness, guide())
	w.fails("resource_not_indexed", resourceCall, args{"skill": "guide", "path": "docs/plan.md"})
	mentions(t, w.works("read_file", args{"path": "docs/plan.md"}).Text(), "the plan of the repository")
}

// req: A-007
func TestNoReferenceIsPastedEagerly(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		files := guide()
		files["skills/guide/templates/t.md"], files["skills/guide/scripts/s.sh"], files["skills/guide/n.md"] = "canary-template", "echo canary-script", "canary-note"
		files["skills/guide/assets/a.txt"] = "canary-asset"
		others := []string{"1234567890", "two levels down", "canary-template", "canary-script", "canary-note", "canary-asset"}
		for who, activate := range map[string]func(*fixture){
			"operator": func(w *fixture) { w.activate("guide") },
			"model":    func(w *fixture) { w.works("load_skill", args{"name": "guide"}) },
		} {
			t.Run(who, func(t *testing.T) {
				w := opened(t, profile, files)
				activate(w)
				w.works("load_skill", args{"name": "guide"}) // it is active already
				silent(t, w.said()+w.blob(one[event.SkillActivated](w).Text)+w.Catalog(t.Context()).Text, append(others, "canary-reference")...)
				w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"})
				mentions(t, w.said(), "canary-reference")
				silent(t, w.said(), others...)
			})
		}
	})
}

// req
func TestSkillsNeedNoShell(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		files := guide()
		files["skills/guide/scripts/run.sh"] = "echo hello\n"
		w := opened(t, profile, files)
		if _, offered := w.spec("bash"); offered {
			t.Fatal("there is a shell")
		}
		if _, offered := w.spec("load_skill"); !offered {
			t.Error("load_skill is not offered without a shell")
		}
		w.fails("unknown_tool", "bash", args{"command": "cat skills/guide/SKILL.md"})
		mentions(t, w.Catalog(t.Context()).Text, "guide")
		for tool, a := range map[string]args{"search_skills": {"query": "testing"}, "list_skills": {}} {
			if slices.Contains(w.set.Tools.Default, tool) {
				mentions(t, w.works(tool, a).Text(), "guide")
			}
		}
		mentions(t, w.works("load_skill", args{"name": "guide"}).Text(), "Read references/a.md when needed.")
		if e := one[event.SkillActivated](w); e.Name != "guide" || e.ActivationSource != "model-tool" || len(w.State().Active) != 1 {
			t.Errorf("record: %+v, active: %+v", e, w.State().Active)
		}
		mentions(t, w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"}).Text(), "canary-reference")
	})
}

// req
func TestChangedFileIsReadAndReported(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		w.activate("guide") // in profile default this creates the index
		was := digest.Bytes([]byte("canary-reference"))
		w.put("skills/guide/references/a.md", "another text, longer")
		o := w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"})
		mentions(t, o.Text(), "another text, longer", `size="20" changed="true" indexed-size="16"`, "resource-digest-mismatch", "16 bytes then, 20 now")
		r, e := reading(t, o), one[event.ResourceRead](w)
		if now := digest.Bytes([]byte("another text, longer")); string(r.Indexed) != was || string(r.Digest) != now {
			t.Errorf("digests of the output: %q and %q, want %q and %q", r.Indexed, r.Digest, was, now)
		}
		if r.Matches == nil || *r.Matches || r.IndexedSize != 16 || r.Size != 20 || len(r.Diagnostics) != 1 {
			t.Errorf("output: %+v", r)
		}
		if e.Matches == nil || *e.Matches || *e.RegistrySize != 16 || *e.ObservedSize != 20 || e.RegistryDigest != was || e.ObservedDigest != digest.Bytes([]byte("another text, longer")) {
			t.Errorf("record: %+v", e)
		}
	})
	inBoth(t, func(t *testing.T, profile string) { // not changed
		w := opened(t, profile, guide())
		w.activate("guide")
		o := w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"})
		silent(t, o.Text(), "changed=", "resource-digest-mismatch")
		if r, e := reading(t, o), one[event.ResourceRead](w); r.Matches == nil || !*r.Matches || len(r.Diagnostics) > 0 || e.Matches == nil || !*e.Matches {
			t.Errorf("output: %+v, record: %+v", r, e)
		}
	})
	inBoth(t, func(t *testing.T, profile string) { // of the same length
		w := opened(t, profile, guide())
		w.activate("guide")
		w.put("skills/guide/references/a.md", "canary-REFERENCE")
		o := w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"})
		mentions(t, o.Text(), `size="16" changed="true" indexed-size="16"`)
		r := reading(t, o)
		if r.Matches == nil || *r.Matches || len(r.Diagnostics) != 1 {
			t.Errorf("output: %+v", r)
		}
		if e := one[event.ResourceRead](w); e.Matches == nil || *e.Matches {
			t.Errorf("record: %+v", e)
		}
	})
}

// req: A-047
func TestResourceToolIsADefaultReadTool(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		if !slices.Contains(w.set.Tools.Default, resourceCall) {
			t.Errorf("default tools: %v", w.set.Tools.Default)
		}
		if s, offered := w.spec(resourceCall); !offered || s.Effect != policy.Read || s.Name != resourceCall {
			t.Errorf("offered %v: %+v", offered, s)
		}
		w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"})
		want := []policy.Effect{policy.Read, policy.Read}
		if diff := cmp.Diff(want, []policy.Effect{last[event.PolicyDecided](w).Effect, last[event.ToolCallStarted](w).Effect}); diff != "" {
			t.Errorf("effects of a call (-want +got):\n%s", diff)
		}
	})
}

// validator checks arguments against the schema that a tool is offered with.
func validator(t *testing.T, spec metier.Spec) func(args) error {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(spec.Schema, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(a args) error {
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(v)
	}
}

// req: A-048
func TestResourceArgumentsAreStrict(t *testing.T) {
	t.Parallel()
	w := opened(t, cfHarness, guide())
	spec, _ := w.spec(resourceCall)
	sch, props := schemaOf(t, spec)
	if want := []string{"maxBytes", "path", "skill"}; !slices.Equal(props, want) || !slices.Equal(sch.Required, []string{"skill", "path"}) {
		t.Errorf("schema %s", spec.Schema)
	}
	allows := validator(t, spec)
	good := args{"skill": "guide", "path": "references/a.md", "maxBytes": 64000}
	if err := allows(good); err != nil {
		t.Errorf("the schema refuses %v: %v", good, err)
	}
	w.works(resourceCall, good)
	mentions(t, w.works(resourceCall, args{"skill": "guide", "path": "references/twenty", "maxBytes": 7}).Text(), ">\n1234567\n<")
	for name, bad := range map[string]args{
		"unknown key":        {"skill": "guide", "path": "references/a.md", "encoding": "utf-8"},
		"another's offset":   {"skill": "guide", "path": "references/a.md", "offset": 1},
		"another's skillId":  {"skillId": "skills:guide", "path": "references/a.md"},
		"skill and skillId":  {"skill": "guide", "skillId": "skills:guide", "path": "references/a.md"},
		"empty skillId":      {"skill": "guide", "skillId": "", "path": "references/a.md"},
		"offset of zero":     {"skill": "guide", "path": "references/a.md", "offset": 0},
		"text as number":     {"skill": "guide", "path": "references/a.md", "maxBytes": "7"},
		"fraction":           {"skill": "guide", "path": "references/a.md", "maxBytes": 1.5},
		"negative":           {"skill": "guide", "path": "references/a.md", "maxBytes": -1},
		"number as text":     {"skill": "guide", "path": 7},
		"list as text":       {"skill": []string{"guide"}, "path": "references/a.md"},
		"zero":               {"skill": "guide", "path": "references/a.md", "maxBytes": 0},
		"null":               {"skill": "guide", "path": "references/a.md", "maxBytes": nil},
		"other case":         {"SKILL": "guide", "path": "references/a.md"},
		"both cases":         {"skill": "guide", "path": "references/a.md", "PATH": "references/a.md"},
		"no skill":           {"path": "references/a.md"},
		"null for an object": nil,
	} {
		if allows(bad) == nil { // what the model sees, and what is checked
			t.Errorf("%s: the schema allows %v", name, bad)
		}
		if o := w.fails("invalid_arguments", resourceCall, bad); t.Failed() {
			t.Fatalf("%s: %s", name, o.Text())
		}
	}
	for _, more := range []string{` {}`, ` 1`, `}`, `,`} {
		o, err := w.Call(t.Context(), metier.Call{ID: "more" + more, Tool: resourceCall, Args: json.RawMessage(`{"skill":"guide","path":"references/a.md"}` + more)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("invalid_arguments", o.Code()); diff != "" {
			t.Errorf("%q after the arguments (-want +got):\n%s", more, diff)
		}
	}
	var into struct {
		Skill string `json:"skill"`
	}
	if err := metier.DecodeArgs([]byte(`{"skill":"guide","skill":"other"}`), &into); metier.CodeOf(err) != "invalid_arguments" {
		t.Errorf("a key that is there twice: %v, %+v", err, into)
	}
	if n := len(events[event.ToolCallStarted](w)); n != 2 {
		t.Errorf("%d calls began", n)
	}
}

// req: A-049
func TestResourceNeedsARegistry(t *testing.T) {
	t.Parallel()
	w := opened(t, cfHarness, nil) // no root
	if _, offered := w.spec(resourceCall); offered {
		t.Error("the tool is offered without a root")
	}
	w.fails("skill_registry_missing", resourceCall, args{"skill": "guide", "path": "a.md"})
	if e := one[event.ResourceRead](w); e.Status != "error" || e.Code != "skill_registry_missing" {
		t.Errorf("record: %+v", e)
	}
}

// req: A-050
func TestResourceNeedsAKnownSkill(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		o := w.fails("skill_not_found", resourceCall, args{"skill": "other", "path": "references/a.md"})
		mentions(t, o.Text(), "other", "available: guide")
		if profile == cfHarness { // names match exactly there
			w.fails("skill_not_found", resourceCall, args{"skill": "Guide", "path": "references/a.md"})
		}
		if e := last[event.ResourceRead](w); e.Status != "error" || e.Code != "skill_not_found" {
			t.Errorf("record: %+v", e)
		}
	})
	inBoth(t, func(t *testing.T, profile string) {
		files := guide()
		files["skills/broken/SKILL.md"] = "---\nname: broken\n---\n"
		files["skills/broken/references/a.md"] = "canary-broken"
		w := opened(t, profile, files)
		w.fails("skill_not_found", resourceCall, args{"skill": "broken", "path": "references/a.md"})
		silent(t, w.said(), "canary-broken")
	})
}

// req, C-089
func TestResourcePathsStayInside(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		files := guide()
		files["skills/guide/references/v1..v2.md"] = "from one to two\n"
		w := opened(t, profile, files)
		for _, p := range []string{"/x", "/etc/passwd", "../x", "a/../../x", "references/../a", "..", ".", "", "references/..", `..\x`, `references\a.md`, `C:\x`, `C:/x`, "a\x00b", "references//a.md", "references/"} {
			w.fails("resource_path_invalid", resourceCall, args{"skill": "guide", "path": p})
		}
		for _, e := range events[event.ResourceRead](w) {
			if e.Code != "resource_path_invalid" || e.ObservedDigest != "" {
				t.Errorf("record: %+v", e)
			}
		}
		mentions(t, w.works(resourceCall, args{"skill": "guide", "path": "references/v1..v2.md"}).Text(), "from one to two")
		mentions(t, w.works(resourceCall, args{"skill": "guide", "path": "references/deep/b.md"}).Text(), "two levels down")
	})
}

// req: A-052
func TestLateFileIsNotIndexed(t *testing.T) {
	t.Parallel()
	w := opened(t, cfHarness, guide())
	w.put("skills/guide/references/late.md", "late")
	w.fails("resource_not_indexed", resourceCall, args{"skill": "guide", "path": "references/late.md"})
	w.fails("resource_not_indexed", resourceCall, args{"skill": "guide", "path": "SKILL.md"})
	for _, p := range []string{"references/A.md", "References/a.md", "references/a.md ", "a.md"} { // only the exact path
		w.put("skills/guide/"+p, "late")
		w.fails("resource_not_indexed", resourceCall, args{"skill": "guide", "path": p})
	}
}

func TestLateFileIsMarkedWhereTheSettingSaysSo(t *testing.T) {
	t.Parallel()
	w := opened(t, settings.DefaultProfile, guide())
	w.activate("guide")
	w.put("skills/guide/references/late.md", "came later")
	o := w.works(resourceCall, args{"skill": "guide", "path": "references/late.md"})
	mentions(t, o.Text(), "came later", `late="true"`, "resource-late")
	if e := one[event.ResourceRead](w); !e.Late || !reading(t, o).Late || e.RegistryDigest != "" {
		t.Errorf("record: %+v", e)
	}
	if o := w.works(resourceCall, args{"skill": "guide", "path": "SKILL.md"}); reading(t, o).Late {
		t.Error("an indexed SKILL.md is late")
	}
}

// req: A-053
func TestSwappedFileIsRefused(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		w.activate("guide")
		w.put("secret", "canary-secret")
		w.put("skills/other/notes.md", "canary-secret")
		for name, target := range map[string]string{"absolute": w.at("secret"), "relative": "../../../secret", "of another skill": "../../other/notes.md"} {
			w.link(target, "skills/guide/references/a.md")
			w.fails("resource_outside_root", resourceCall, args{"skill": "guide", "path": "references/a.md"})
			silent(t, w.said(), "canary-secret")
			if e := last[event.ResourceRead](w); e.Code != "resource_outside_root" || e.Status != "error" || e.ObservedDigest != "" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		w.put("docs/twenty", "canary-secret")
		w.link(w.at("docs"), "skills/guide/references")
		w.fails("resource_outside_root", resourceCall, args{"skill": "guide", "path": "references/twenty"})
		w.put("elsewhere/SKILL.md", skillFile("guide", ""))
		w.put("elsewhere/references/a.md", "canary-secret")
		w.link(w.at("elsewhere"), "skills/guide")
		w.fails("resource_outside_root", resourceCall, args{"skill": "guide", "path": "references/a.md"})
		silent(t, w.said(), "canary-secret")
	})
}

// If a file is replaced by something that is not a file, the error names what it is.
//
// req: A-053
func TestSwappedForSomethingElse(t *testing.T) {
	t.Parallel()
	w := opened(t, cfHarness, guide())
	if err := os.Remove(w.at("skills/guide/references/a.md")); err != nil {
		t.Fatal(err)
	}
	w.fails("resource_not_found", resourceCall, args{"skill": "guide", "path": "references/a.md"})
	if err := os.Mkdir(w.at("skills/guide/references/a.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.fails("resource_not_file", resourceCall, args{"skill": "guide", "path": "references/a.md"})
}

// A huge sparse file is read up to its limit and hashed up to the hash limit, no further.
//
// req: A-055
func TestHugeFileIsBounded(t *testing.T) {
	t.Parallel()
	w := opened(t, settings.DefaultProfile, guide())
	w.activate("guide")
	f, err := os.Create(w.at("skills/guide/references/a.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	f.Close()
	w.fails("resource_too_large", resourceCall, args{"skill": "guide", "path": "references/a.md"})
	w.put("skills/guide/references/a.md", strings.Repeat("é", 5<<20))
	r := reading(t, w.works(resourceCall, args{"skill": "guide", "path": "references/a.md", "maxBytes": 9001}))
	if r.Size != 10<<20 || !r.Truncated || !r.IsText || r.Digest == "" {
		t.Errorf("%+v", r)
	}
}

// req: A-055
func TestTextIsBounded(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		o := w.works(resourceCall, args{"skill": "guide", "path": "references/twenty", "maxBytes": 7})
		if r := reading(t, o); !r.Truncated || r.Size != 20 || r.MaxBytes != 7 {
			t.Errorf("%+v", r)
		}
		mentions(t, o.Text(), ">\n1234567\n<", `truncated="true"`)
		if e := one[event.ResourceRead](w); !e.Truncated || e.MaxBytes != 7 || *e.ObservedSize != 20 {
			t.Errorf("record: %+v", e)
		}
		o = w.works(resourceCall, args{"skill": "guide", "path": "references/twenty", "maxBytes": 20})
		if reading(t, o).Truncated {
			t.Error("20 of 20 bytes count as truncated")
		}
		mentions(t, o.Text(), ">\n12345678901234567890\n<")
		if o = w.works(resourceCall, args{"skill": "guide", "path": "references/twenty", "maxBytes": 19}); !reading(t, o).Truncated {
			t.Error("19 of 20 bytes do not count as truncated")
		}
		mentions(t, o.Text(), ">\n1234567890123456789\n<")
		w = opened(t, profile, map[string]string{"skills/guide/SKILL.md": skillFile("guide", ""), "skills/guide/references/wide": "aééé"})
		mentions(t, w.works(resourceCall, args{"skill": "guide", "path": "references/wide", "maxBytes": 4}).Text(), ">\naé\n<") // a character is not cut
	})
}

// req: A-055
func TestReadCapsComeFromTheSettings(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, map[string]string{"skills/big/SKILL.md": skillFile("big", "x"), "skills/big/a.txt": strings.Repeat("x", 300_000)})
		for asked, want := range map[int]int{0: 64_000, 1: 1, 256_000: 256_000, 999_999: 256_000} {
			a := args{"skill": "big", "path": "a.txt"}
			if asked > 0 {
				a["maxBytes"] = asked
			}
			o := w.works(resourceCall, a)
			if r := reading(t, o); r.MaxBytes != want || !r.Truncated || !strings.Contains(o.Text(), ">\n"+strings.Repeat("x", want)+"\n<") {
				t.Errorf("asked for %d: %+v", asked, r)
			}
		}
	})
}

// req
func TestBinaryIsMetadataOnly(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		sum := digest.Bytes([]byte("\x00\x9f\x92\x96"))
		for name, o := range map[string]interface {
			Text() string
			Detail() json.RawMessage
		}{
			"resource tool": w.works(resourceCall, args{"skill": "guide", "path": "assets/logo.png"}),
			"load tool":     w.works("load_skill", args{"name": "guide", "file_path": "assets/logo.png"}),
		} {
			mentions(t, o.Text(), "binary", "4 bytes")
			if profile == cfHarness { // show_digest
				mentions(t, o.Text(), sum)
			}
			var detail map[string]any
			if err := json.Unmarshal(o.Detail(), &detail); err != nil {
				t.Fatal(err)
			}
			if detail["status"] != "binary" {
				t.Errorf("%s: %v", name, detail)
			}
			if detail["observedSizeBytes"] != 4.0 || detail["observedDigest"] != sum || detail["isText"] != false {
				t.Errorf("%s: %v, want 4 bytes of %s", name, detail, sum)
			}
			for _, key := range []string{"content", "text", "encoding"} {
				if _, has := detail[key]; has {
					t.Errorf("%s: the output has a field %s", name, key)
				}
			}
		}
		for _, e := range events[event.ResourceRead](w) {
			if e.Status != "binary" || e.ContentKind != "binary" || e.ObservedDigest != sum {
				t.Errorf("record: %+v", e)
			}
		}
		for _, r := range events[event.ToolResult](w) {
			silent(t, w.blob(r.Content), "\x9f\x92", "AJ+S")
		}
		// A NUL is enough, also far from the start, and so is one byte that is no UTF-8.
		long := strings.Repeat("é", 4095) // a character may lie across the end of what is looked at
		files := map[string]string{"skills/kinds/SKILL.md": skillFile("kinds", ""), "skills/kinds/nul": "canary\x00", "skills/kinds/latin": "canary caf\xe9", "skills/kinds/last": long + "a\x00", "skills/kinds/utf8": long + "aé"}
		w = opened(t, profile, files)
		for file, want := range map[string]string{"nul": "binary", "latin": "binary", "last": "binary", "utf8": "text"} {
			o := w.works(resourceCall, args{"skill": "kinds", "path": file})
			if got := last[event.ResourceRead](w).ContentKind; got != want || (reading(t, o).Status == "binary") != (want == "binary") {
				t.Errorf("%s: %q, want %q", file, got, want)
			}
			silent(t, o.Text(), "canary")
			if want == "binary" {
				mentions(t, o.Text(), file+" is a binary file: ", "Its content is not shown.")
				silent(t, string(o.Detail()), "encoding")
			}
			for _, r := range w.registry().Skills[0].Resources {
				if r.Path == file && r.ContentKind != want {
					t.Errorf("the registry has %s as %q, want %q", file, r.ContentKind, want)
				}
			}
		}
	})
}

// req
func TestEveryReadLeavesItsProvenance(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"})
		w.works(resourceCall, args{"skill": "guide", "path": "assets/logo.png"})
		w.fails("resource_path_invalid", resourceCall, args{"skill": "guide", "path": "../x"})
		w.fails("skill_not_found", resourceCall, args{"skill": "none", "path": "a"})
		w.fails("resource_not_found", resourceCall, args{"skill": "guide", "path": missingFile(w)})
		want := []event.ResourceRead{
			{Call: "c1", Name: "guide", Path: "references/a.md", Kind: "reference", Status: "read", ContentKind: "text"},
			{Call: "c2", Name: "guide", Path: "assets/logo.png", Kind: "asset", Status: "binary", ContentKind: "binary"},
			{Call: "c3", Name: "guide", Path: "../x", Status: "error", Code: "resource_path_invalid"},
			{Call: "c4", Name: "none", Path: "a", Status: "error", Code: "skill_not_found"},
			{Call: "c5", Name: "guide", Path: "references/twenty", Kind: "reference", Status: "error", Code: "resource_not_found"},
		}
		got := events[event.ResourceRead](w)
		if len(got) != len(want) {
			t.Fatalf("%d records: %+v", len(got), got)
		}
		returned := events[event.ToolResult](w)
		for i, g := range got {
			if g.Call != want[i].Call || g.Name != want[i].Name || g.Path != want[i].Path || g.Kind != want[i].Kind || g.Status != want[i].Status || g.Code != want[i].Code || g.ContentKind != want[i].ContentKind || g.Role != policy.Context {
				t.Errorf("record %d: %+v", i, g)
			}
			if ok := g.Status != "error"; ok != (g.RegistryDigest != "" && g.RegistryDigest == g.ObservedDigest) {
				t.Errorf("record %d: digests %q and %q", i, g.RegistryDigest, g.ObservedDigest)
			}
			var detail struct{ RegistryDigest, ObservedDigest string }
			if err := json.Unmarshal([]byte(w.blob(returned[i].Detail)), &detail); err != nil || detail.ObservedDigest != g.ObservedDigest || detail.RegistryDigest != g.RegistryDigest {
				t.Errorf("output %d: %+v, %v", i, detail, err)
			}
		}
	})
}

// missingFile removes an indexed file and returns its path.
func missingFile(w *fixture) string {
	w.t.Helper()
	if err := os.Remove(w.at("skills/guide/references/twenty")); err != nil {
		w.t.Fatal(err)
	}
	return "references/twenty"
}

// A read of an older record does not name the version that was read. No answer covers it for long,
// and it allows no tool.
func TestReadWithoutVersionRestrictsMost(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", guide())
	head := record.Head{}
	for i, e := range []event.Event{
		event.PolicyDecided{Call: "c", Actor: policy.ByModel},
		event.ResourceRead{Call: "c", SkillID: "skills:guide", Path: "SKILL.md", Status: "read"},
		event.ResourceRead{Call: "c", SkillID: "mcp:far:skill/deploy", Path: "references/a.md", Status: "read"},
	} {
		en, err := event.New(e, fmt.Sprint(i), "tester", time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if head, err = w.log.Append(t.Context(), head, en); err != nil {
			t.Fatal(err)
		}
	}
	want := []policy.Subject{{ID: "skills:guide", Name: "skills:guide", Declared: true}, {ID: "mcp:far:skill/deploy", Name: "mcp:far:skill/deploy", Declared: true}}
	if diff := cmp.Diff(want, w.open().State().Told); diff != "" {
		t.Error(diff)
	}
}
