package metier_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
)

// tools returns the names of a profile's load and resource tools.
func (w *fixture) tools() (load, resource string) { return w.set.Tools.Load, w.set.Tools.Resource }

func runtimeFiles() map[string]string {
	return map[string]string{
		"skills/one/SKILL.md":            skillFile("one", "Body of one.\n"),
		"skills/one/references/a.md":     "canary-reference",
		"skills/one/references/sub/b.md": "canary-deep",
		"skills/one/assets/c.bin":        "\x00\x01",
		"skills/two/SKILL.md":            skillFile("two", "Body of two.\n"),
		"skills/three/SKILL.md":          skillFile("three", "Body of three.\n"),
	}
}

func traced(t *testing.T, profile string, files map[string]string) *fixture {
	t.Helper()
	w := newFixture(t, profile, files)
	w.trace = &trace{}
	return w.open()
}

// req: C-002
func TestStartOpensNoFileOfASkill(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{runtimeProf, settings.DefaultProfile} {
		files := runtimeFiles()
		files["skills/one/SKILL.md"] = skillFile("one", strings.Repeat("canary-body\n", 100_000))
		w := traced(t, profile, files)
		w.preview()
		if opens := w.trace.taken(); len(opens) != 0 {
			t.Errorf("%s: opened at the start: %v", profile, opens)
		}
		for _, sk := range w.Snapshot().All() {
			if sk.Indexed || len(sk.Resources) > 0 || strings.Contains(sk.Head.FirstParagraph, "canary") {
				t.Errorf("%s: kept of %s: %+v", profile, sk.Name, sk.Head)
			}
			if sk.Name == "one" && sk.Head.Digest != "" {
				t.Errorf("%s: a long SKILL.md was read whole", profile)
			}
		}
		load, _ := w.tools()
		w.works(load, args{"name": "one"})
		if opens := w.trace.taken(); !slices.Contains(opens, "one/SKILL.md") {
			t.Errorf("%s: opened on activation: %v", profile, opens)
		}
	}
}

// req: C-012, C-029, C-069
func TestFilesAndToolsBothActivate(t *testing.T) {
	t.Parallel()
	files, whole := runtimeFiles(), "\n    Body of one.\n"+strings.Repeat("A line of the body.\n", 2000)+"The end of one.\n\n\n"
	files["skills/one/SKILL.md"] = skillFile("one", whole)
	for _, mode := range []string{"tool", "file", "mount"} {
		w := opened(t, runtimeProf, files)
		load, resource := w.tools()
		mentions(t, w.preview().System, "<name>one</name>", "<location>"+w.at("skills/one/SKILL.md")+"</location>") // by which both are found
		switch mode {
		case "tool":
			w.works(load, args{"name": "one"})
			mentions(t, w.works(resource, args{"skill": "one", "path": "references/a.md"}).Text(), "canary-reference")
		case "mount":
			w.works("read_file", args{"path": "/skills/one/SKILL.md"})
			mentions(t, w.works("read_file", args{"path": "/skills/one/references/a.md"}).Text(), "canary-reference")
		default:
			w.works("read_file", args{"path": w.at("skills/one/SKILL.md")})
			mentions(t, w.works("read_file", args{"path": w.at("skills/one/references/a.md")}).Text(), "canary-reference")
		}
		e := one[event.SkillActivated](w)
		mentions(t, w.blob(e.Text), "Body of one.", "The end of one.")
		silent(t, w.blob(e.Text), "description:")
		req := w.preview() // the model's next request
		found := false
		for _, m := range req.Messages {
			found = found || strings.Contains(m.Text(), ">\n"+whole+"\nSkill directory: ")
		}
		if !found || e.Hash != digest.Bytes([]byte(files["skills/one/SKILL.md"])) {
			t.Errorf("%s: next request %+v", mode, req.Messages)
		}
	}
}

// req: C-030, C-064
func TestActivationEventHasItsFields(t *testing.T) {
	t.Parallel()
	w := newFixture(t, runtimeProf, runtimeFiles())
	w.config = func(c *metier.Config) { c.ID, c.Now = "session-7", tick() }
	w.open()
	load, _ := w.tools()
	w.works(load, args{"name": "one"})
	e := one[event.SkillActivated](w)
	if e.SkillID != "skills:one" || e.Hash != digest.Bytes([]byte(runtimeFiles()["skills/one/SKILL.md"])) || e.Source != policy.Project ||
		e.ActivationSource != "model-tool" || e.SessionID != "session-7" || e.TaskID != "c1" {
		t.Errorf("%+v", e)
	}
	for en, err := range w.log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if en.Type != "skill.activated" {
			continue
		}
		if en.At.Before(time.Date(2031, 2, 3, 0, 0, 0, 0, time.UTC)) || en.At.Location() != time.UTC {
			t.Errorf("activated at %s", en.At)
		}
		if at := w.State().Active[0].At; !at.Equal(en.At) {
			t.Errorf("state says %s, record says %s", at, en.At)
		}
		for _, field := range []string{`"skillId":`, `"hash":`, `"source":"project"`, `"sessionId":"session-7"`, `"taskId":`, `"activationSource":"model-tool"`} {
			mentions(t, string(en.Data), field)
		}
	}
	w.activate("two") // before the run
	want := event.SkillActivated{SkillID: "skills:two", Name: "two", Hash: digest.Bytes([]byte(runtimeFiles()["skills/two/SKILL.md"])), Source: policy.Project,
		ActivationSource: "cli-preload", SessionID: "session-7"}
	got := last[event.SkillActivated](w)
	if diff := cmp.Diff(want, event.SkillActivated{SkillID: got.SkillID, Name: got.Name, Hash: got.Hash, Source: got.Source, ActivationSource: got.ActivationSource, SessionID: got.SessionID}); diff != "" {
		t.Error(diff)
	}
	for tier, source := range map[policy.Tier]policy.Tier{policy.Builtin: policy.Builtin, policy.Org: policy.Org, policy.Project: policy.Project, policy.User: policy.User, policy.ThirdParty: policy.ThirdParty, "": policy.ThirdParty} {
		for _, profile := range []string{runtimeProf, settings.DefaultProfile} {
			w := newFixture(t, profile, runtimeFiles())
			w.roots = []metier.Mount{w.mount("skills", tier)}
			w.config = func(c *metier.Config) { c.Batch = false }
			w.open()
			sk, err := w.Snapshot().Find("one")
			if err == nil {
				sk, err = w.Snapshot().Index(t.Context(), sk)
			}
			if err != nil || sk.Digest == "" {
				t.Fatal(sk.Digest, err)
			}
			changed := skillFile("one", "Body of one, changed.\n") // the hash is that of the text that was read, not the indexed one
			w.put("skills/one/SKILL.md", changed)
			load, _ := w.tools()
			w.works(load, args{"name": "one"})
			if e := one[event.SkillActivated](w); e.Source != source || e.Hash != digest.Bytes([]byte(changed)) || w.blob(e.Original) != changed || w.State().Active[0].Hash != e.Hash {
				t.Errorf("%s, tier %q: %+v", profile, tier, e)
			}
		}
	}
}

// req: C-031, C-088
func TestSeveralSkillsAreActive(t *testing.T) {
	t.Parallel()
	w := opened(t, runtimeProf, runtimeFiles())
	load, _ := w.tools()
	for _, n := range []string{"two", "one", "three", "one"} { // the last is active
		w.works(load, args{"name": n})
	}
	var recorded, active []string
	for _, e := range events[event.SkillActivated](w) {
		recorded = append(recorded, e.Name)
	}
	for _, a := range w.State().Active {
		active = append(active, a.Name)
	}
	if want := []string{"two", "one", "three"}; !slices.Equal(recorded, want) || !slices.Equal(active, want) {
		t.Errorf("recorded %v, active %v", recorded, active)
	}
	w.works("list_files", args{"path": w.dir})
	var want []string
	for _, n := range []string{"two", "one", "three"} {
		want = append(want, n+" "+digest.Bytes([]byte(runtimeFiles()["skills/"+n+"/SKILL.md"])))
	}
	for _, active := range [][]event.SkillRef{last[event.PolicyDecided](w).Active, last[event.ToolCallStarted](w).Active, last[event.ToolResult](w).Active} {
		var named []string
		for _, a := range active {
			named = append(named, a.Name+" "+a.Digest)
		}
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("a later call names (-want +got):\n%s", diff)
		}
	}
	files := runtimeFiles() // the lists of all of them count
	files["skills/two/SKILL.md"] = skillFile("two", "Body of two.\n", "allowed-tools: Read")
	w = opened(t, runtimeProf, files)
	w.works(load, args{"name": "two"})
	w.works(load, args{"name": "one"})
	mentions(t, w.fails(policy.CodeNotNarrowed, "write_file", args{"path": "new.md", "content": "x"}).Text(), `"two"`)
}

// req: C-032
func TestReferencesWaitUntilAsked(t *testing.T) {
	t.Parallel()
	load, resource := newFixture(t, runtimeProf, nil).tools()
	for how, activate := range map[string]func(*fixture){
		"by the tool": func(w *fixture) { w.works(load, args{"name": "one"}) },
		"by the file": func(w *fixture) { w.works("read_file", args{"path": w.at("skills/one/SKILL.md")}) },
		"by a person": func(w *fixture) { w.activate("one") },
	} {
		w := traced(t, runtimeProf, runtimeFiles())
		activate(w)
		if opens := slices.Compact(w.trace.taken()); !slices.Equal(opens, []string{"one/SKILL.md"}) {
			t.Errorf("%s: activation opened %v", how, opens)
		}
		silent(t, w.said(), "canary")
		w.works(resource, args{"skill": "one", "path": "references/a.md"})
		if opens := w.trace.taken(); !slices.Equal(opens, []string{"one/references/a.md"}) {
			t.Errorf("%s: the read opened %v", how, opens)
		}
	}
}

// req: C-033
func TestOtherToolsReachSkillsThroughTheLoader(t *testing.T) {
	t.Parallel()
	w := opened(t, runtimeProf, runtimeFiles())
	w.works("read_file", args{"path": w.at("skills/one/references/a.md")})
	if e := one[event.ResourceRead](w); e.Path != "references/a.md" || e.SkillID != "skills:one" || e.ObservedDigest != digest.Bytes([]byte("canary-reference")) {
		t.Errorf("record: %+v", e)
	}
	w.fails("resource_too_deep", "read_file", args{"path": w.at("skills/one/references/sub/b.md")})
	for _, call := range []struct {
		tool string
		args args
	}{
		{"write_file", args{"path": w.at("skills/one/references/a.md"), "content": "x"}},
		{"edit_file", args{"path": w.at("skills/one/references/a.md"), "old": "canary", "new": "x"}},
	} {
		if o := w.model(call.tool, call.args); o.Code() == "" {
			t.Errorf("%s wrote into a skill: %s", call.tool, o.Text())
		}
	}
	silent(t, w.said(), "canary-deep")
	files := runtimeFiles()
	files["skills/quiet/SKILL.md"], files["skills/quiet/references/q.md"] = skillFile("quiet", "", "disable-model-invocation: true"), "canary-quiet"
	w = opened(t, runtimeProf, files)
	_, resource := w.tools()
	w.fails("skill_not_found", resource, args{"skill": "quiet", "path": "references/q.md"}) // the loader withholds what models must not see
	silent(t, w.said(), "canary-quiet")
	w = opened(t, settings.DefaultProfile, files) // where such a skill loads, reading its file does not activate it
	w.works("read_file", args{"path": w.at("skills/quiet/SKILL.md")})
	if acts := events[event.SkillActivated](w); len(acts) != 0 {
		t.Errorf("a model activated %+v", acts)
	}
	if read := one[event.FileRead](w); read.SkillID != "skills:quiet" || read.Digest != digest.Bytes([]byte(files["skills/quiet/SKILL.md"])) {
		t.Errorf("the read is recorded as %+v", read)
	}
}

// req: C-034, C-035, C-085
func TestTraversalIsBlocked(t *testing.T) {
	t.Parallel()
	for _, links := range []settings.Symlinks{settings.SymlinksIgnore, settings.SymlinksInBounds} {
		w := newFixture(t, runtimeProf, runtimeFiles())
		w.set.Discover.Symlinks = links
		w.open()
		load, resource := w.tools()
		w.put("skills/secret", "canary-secret")
		w.put("secret", "canary-secret")
		for p, code := range map[string]string{
			"../secret":                        "resource_path_invalid",
			"references/../../secret":          "resource_path_invalid",
			"./../secret":                      "resource_path_invalid",
			`..\secret`:                        "resource_path_invalid",
			"..":                               "resource_path_invalid",
			w.at("secret"):                     "resource_path_invalid",
			w.at("skills/one/references/a.md"): "resource_path_invalid",
			"/skills/one/references/a.md":      "resource_path_invalid",
			"%2e%2e/secret":                    "resource_not_found", // nothing is decoded
			"..%2fsecret":                      "resource_not_found",
			"%2e%2e%2fsecret":                  "resource_not_found",
			"..\u2215secret":                   "resource_not_found",
			"．．/secret":                        "resource_not_found",
			"file:///etc/passwd":               "resource_path_invalid",
			"~/secret":                         "resource_not_found",
			"references/..":                    "resource_path_invalid",
			"references/../../one/SKILL.md":    "resource_path_invalid",
			"":                                 "resource_path_invalid",
			".":                                "resource_path_invalid",
			`C:\secret`:                        "resource_path_invalid",
			"C:/secret":                        "resource_path_invalid",
			`\\host\secret`:                    "resource_path_invalid",
			"//host/secret":                    "resource_path_invalid",
			"references/a.md\x00":              "resource_path_invalid",
			"references/a.md/":                 "resource_path_invalid",
			"references//a.md":                 "resource_path_invalid",
			"refe\x00rences/a.md":              "resource_path_invalid",
		} {
			w.fails(code, resource, args{"skill": "one", "path": p})
			if p != "" { // without a file the tool loads the skill
				w.fails(code, load, args{"name": "one", "file_path": p})
			}
		}
		w.link(w.at("secret"), "skills/one/leak")
		w.link("../secret", "skills/one/leak2")
		w.link(w.dir, "skills/one/up")
		w.link("../two", "skills/one/cousin")
		for _, p := range []string{"leak", "leak2", "up/secret", "cousin/SKILL.md"} {
			w.fails("resource_outside_root", resource, args{"skill": "one", "path": p})
			w.fails("resource_outside_root", load, args{"name": "one", "file_path": p})
			if o := w.model("read_file", args{"path": w.at("skills/one/" + p)}); p != "up/secret" && o.Code() == "" {
				t.Errorf("read_file followed %s: %s", p, o.Text())
			}
		}
		w.link("references/a.md", "skills/one/inside.md") // a link that stays inside is read where links are followed
		w.fails(map[settings.Symlinks]string{settings.SymlinksIgnore: "resource_outside_root"}[links], resource, args{"skill": "one", "path": "inside.md"})
		for _, p := range []string{"references/a.md", "./references/a.md"} { // what stays inside is read
			mentions(t, w.works(resource, args{"skill": "one", "path": p}).Text(), "canary-reference")
		}
		for _, r := range events[event.ToolResult](w) {
			if r.Tool == settings.ToolReadSkillResource {
				silent(t, w.blob(r.Content), "canary-secret")
			}
		}
	}
}

// req: C-036, C-048, C-057
func TestReadsAreTracked(t *testing.T) {
	t.Parallel()
	w := newFixture(t, runtimeProf, runtimeFiles())
	w.roots = []metier.Mount{w.mount("skills", policy.Org)}
	w.open()
	_, resource := w.tools()
	w.works(resource, args{"skill": "one", "path": "references/a.md"})
	w.works(resource, args{"skill": "one", "path": "assets/c.bin"})
	w.fails("resource_not_found", resource, args{"skill": "one", "path": "references/none.md"})
	w.works(resource, args{"skill": "one", "path": "references/a.md"}) // again
	w.put("skills/one/references/a.md", "changed-reference")
	w.works("read_file", args{"path": w.at("skills/one/references/a.md")})
	w.fails("resource_path_invalid", resource, args{"skill": "one", "path": "../two/SKILL.md"})
	got := events[event.ResourceRead](w)
	sized := func(n int64) *int64 { return &n }
	read := func(call, path, kind, status, code string) event.ResourceRead {
		return event.ResourceRead{Call: call, SkillID: "skills:one", Name: "one", Source: policy.Org, Path: path, Kind: kind, Status: status, Code: code, MaxBytes: 5_000_000, Role: policy.Context}
	}
	want := []event.ResourceRead{read("c1", "references/a.md", "reference", "read", ""), read("c2", "assets/c.bin", "asset", "binary", ""), read("c3", "references/none.md", "reference", "error", "resource_not_found"),
		read("c4", "references/a.md", "reference", "read", ""), read("c5", "references/a.md", "reference", "read", ""), read("c6", "../two/SKILL.md", "", "error", "resource_path_invalid")}
	for i, text := range map[int]string{0: "canary-reference", 1: "\x00\x01", 3: "canary-reference", 4: "changed-reference"} {
		want[i].ObservedDigest, want[i].ObservedSize, want[i].HostPath = digest.Bytes([]byte(text)), sized(int64(len(text))), w.at("skills/one/"+want[i].Path)
		want[i].ContentKind = map[bool]string{true: "binary", false: "text"}[i == 1]
	}
	want[4].MaxBytes = 256 << 10                 // of read_file
	if diff := cmp.Diff(want, got); diff != "" { // this profile reads without an index
		t.Errorf("records (-want +got):\n%s", diff)
	}
	// The digest and the size are those of the whole file, however little of it is shown.
	for over, code := range map[settings.ReadOver]string{settings.ReadOverRefuse: "resource_too_large", settings.ReadOverTruncate: ""} {
		w := newFixture(t, runtimeProf, runtimeFiles())
		w.set.Read.Over = over
		w.open().fails(code, resource, args{"skill": "one", "path": "references/a.md", "maxBytes": 6})
		if e := one[event.ResourceRead](w); e.ObservedDigest != digest.Bytes([]byte("canary-reference")) || e.ObservedSize == nil || *e.ObservedSize != 16 || e.MaxBytes != 6 || e.Truncated != (code == "") || e.Code != code {
			t.Errorf("%s: %+v", over, e)
		}
		if _, err := w.Read(t.Context(), "one", "references/sub/b.md", 0); err != nil {
			t.Fatal(err)
		}
		if e := last[event.ResourceRead](w); e.Path != "references/sub/b.md" || e.Code != "resource_too_deep" { // the operator's reads are recorded, too
			t.Errorf("%s: %+v", over, e)
		}
		silent(t, w.said(), "canary-")
	}
	mentions(t, w.said(), `encoding=\"base64\"`, "AAE=")
}

// req: C-037
func TestNestedReferencesNeedTheSwitch(t *testing.T) {
	t.Parallel()
	for scope, code := range map[settings.ResourceScope]string{settings.ResourceScopeOneLevel: "resource_too_deep", settings.ResourceScopeFolder: "", settings.ResourceScopeIndexed: ""} {
		files := runtimeFiles()
		files["skills/one/assets/sub/d.md"], files["skills/one/own/sub/e.md"] = "canary-asset", "canary-own"
		w := newFixture(t, runtimeProf, files)
		if scope == settings.ResourceScopeOneLevel && w.set.Read.Scope != scope {
			t.Fatalf("the profile has %s", w.set.Read.Scope)
		}
		w.set.Read.Scope = scope
		w.open()
		_, resource := w.tools()
		for _, deep := range []string{"references/sub/b.md", "assets/sub/d.md", "own/sub/e.md"} {
			w.fails(code, resource, args{"skill": "one", "path": deep})
		}
		w.works(resource, args{"skill": "one", "path": "references/a.md"})
		w.works(resource, args{"skill": "one", "path": "./references/a.md"})
	}
}

// A tool sees the skills that are active when it is called.
//
// req: C-046
func TestToolContext_Active(t *testing.T) {
	t.Parallel()
	var seen []event.SkillRef
	look := made{name: "look", effect: policy.Read, act: func(_ context.Context, x *metier.ToolContext) (metier.Result, error) {
		seen = x.Active()
		return metier.Text("seen"), nil
	}}
	w := withTools(t, runtimeFiles(), look).open()
	w.works("look", args{})
	if len(seen) != 0 {
		t.Errorf("before any is active: %+v", seen)
	}
	var want []event.SkillRef
	for _, name := range []string{"two", "one"} {
		a, _ := w.activate(name)
		want = append(want, event.SkillRef{ID: "skills:" + name, Name: name, Digest: a.Hash, Tree: a.Tree, Tier: policy.Project})
	}
	w.works("look", args{"again": true})
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
