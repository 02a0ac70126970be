package harness_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/event/eventtest"
	"metier/harness"
	"metier/internal/testenv"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// desk is a session over one harness.
type desk struct {
	t   *testing.T
	dir string
	s   *metier.Session
	log *record.Memory
	n   int
}

// openDesk opens a session as `metier run --harness` does, without a model.
func openDesk(t *testing.T, dir string, change ...func(*metier.Config)) *desk {
	t.Helper()
	l, err := settings.Profile("agent-harness")
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(l)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, dir: dir, log: record.NewMemory()}
	c := metier.Config{ID: "desk", By: "test", Log: d.log, Blobs: d.log, Settings: set, View: metier.View{Paths: set.Catalog.Paths},
		Grants: policy.Grants{Mode: policy.Disabled, Narrow: policy.Narrowing(set.Policy.AllowedTools), Merge: policy.Merge(set.Policy.Merge), Tools: []string{settings.ToolLoadSkill, settings.ToolReadSkillResource, settings.ToolListSkills, settings.ToolLoadContent, settings.ToolSearchSkills}}}
	for _, f := range change {
		f(&c)
	}
	src := open(t, dir, &harness.Options{Layout: c.Settings.Harness.Layout, Links: true})
	c.Snapshot, err = metier.Build(t.Context(), []metier.Mount{{Label: "desk", Tier: policy.User, Source: src, Root: dir, ByPath: true}}, c.Settings.Parse, c.Settings.Names, c.Settings.Read.IndexRoot, false)
	if err != nil {
		t.Fatal(err)
	}
	c.Tools = append(c.Tools, harness.Tools(c.Settings.Tools)...)
	if d.s, err = metier.Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.s.Close(t.Context()) })
	return d
}

// call makes a call of the model.
func (d *desk) call(tool, path string) metier.Observation {
	d.t.Helper()
	d.n++
	raw, _ := json.Marshal(map[string]string{"path": path})
	o, err := d.s.Call(d.t.Context(), metier.Call{ID: fmt.Sprint("c", d.n), Tool: tool, Args: raw, Actor: policy.ByModel})
	if err != nil {
		d.t.Fatalf("%s %q: %v", tool, path, err)
	}
	return o
}

// gives fails the test unless a call returns exactly this content.
func (d *desk) gives(tool, path, want string) {
	d.t.Helper()
	o := d.call(tool, path)
	if got := inside(o.Text()); o.Code() != "" || got != want {
		d.t.Errorf("%s %q: %q\n%s\nwant %q", tool, path, o.Code(), o.Text(), want)
	}
}

func (d *desk) refuses(code, tool, path string) {
	d.t.Helper()
	if o := d.call(tool, path); o.Code() != code {
		d.t.Errorf("%s %q: %q, want %q\n%s", tool, path, o.Code(), code, o.Text())
	}
}

func (d *desk) file(path string) string {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.dir, filepath.FromSlash(path)))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// inside returns the content of a result as it was in the file, without the
// element around it if there is one, and without the list of scripts.
func inside(s string) string {
	if !strings.HasPrefix(s, "<skill_") {
		text, _, _ := strings.Cut(s, "\n\nAvailable scripts: ")
		return text
	}
	_, rest, _ := strings.Cut(s, ">\n")
	if i := strings.LastIndex(rest, "</skill_resource>"); i >= 0 {
		return rest[:i]
	}
	before, _, ok := strings.Cut(rest, "</skill_context>")
	if !ok {
		return "not in an element: " + s
	}
	text, _, _ := strings.Cut(before, "\nFiles of this skill")
	text, _, _ = strings.Cut(text, "\nSkill directory: ")
	return text
}

// events returns those of one type in the record.
func events[E event.Event](d *desk) []E {
	d.t.Helper()
	return eventtest.All[E](d.t, d.log)
}

// salesDesk is our own harness of layout v1.
var salesDesk = filepath.Join("..", "examples", "sales-desk")

// releaseDesk is our own harness of layout v2.
var releaseDesk = filepath.Join("..", "examples", "release-desk")

// req: D-003
func TestDiscoveryGivesDescriptionsAlone(t *testing.T) {
	t.Parallel()
	d := openDesk(t, salesDesk)
	o := d.call("list_content", "skills/figures")
	want := `Content of skills/figures:
- skills/figures/checks (group): What is wrong with a file before it is trusted.
- skills/figures/count-rows (skill): Counts the rows of a CSV text on standard input. Use when a question asks how many.
- skills/figures/sum-orders (skill): Sums a column of a CSV file by the groups of another. Use when a question asks how much, per shop or month.
`
	if o.Text() != want || o.Code() != "" {
		t.Errorf("%q\n%s", o.Code(), o.Text())
	}
	o = d.call("list_content", "references/style")
	if want := "Content of references/style:\n- references/style/logo.png (document)\n- references/style/tone.md (document): How the desk writes to people. Read it before you answer somebody outside of the shop.\n"; o.Text() != want {
		t.Error(o.Text())
	}
	o = d.call("list_content", "skills/figures/count-rows")
	if want := "- skills/figures/count-rows (skill): Counts the rows of a CSV text on standard input. Use when a question asks how many.\n"; o.Text() != want {
		t.Error(o.Text())
	}
	for _, path := range []string{"", "."} {
		if o := d.call("list_content", path); !strings.HasPrefix(o.Text(), "Content of the harness:\n- references (group): What the desk can look up.\n- skills (group)") {
			t.Errorf("%q: %s", path, o.Text())
		}
	}
	all := d.call("list_content", "skills/figures/checks").Text() + d.call("list_content", "figures").Text() + d.call("list_content", "data").Text()
	for _, body := range []string{"gaps.sh", "Run `", "RATES"} {
		if strings.Contains(all, body) {
			t.Errorf("a list holds content: %s", all)
		}
	}
	if got := events[event.ResourceRead](d); len(got) > 0 || len(d.s.State().Active) > 0 {
		t.Errorf("a list reads or activates: %+v", got)
	}
}

// req: D-004, D-010, D-042
func TestActivationOfLeaves(t *testing.T) {
	t.Parallel()
	d := openDesk(t, salesDesk)
	d.gives("load_skill", "figures/sum-orders", d.file("skills/figures/sum-orders/SKILL.md"))
	d.gives("load_skill", "writing/short-report", d.file("skills/writing/short-report/SKILL.md"))
	d.gives("load_skill", "figures/sum-orders/scripts/sum.sh", d.file("skills/figures/sum-orders/scripts/sum.sh")) // a file of a skill is that file
	d = openDesk(t, salesDesk)
	if o := d.call("load_skill", "figures/sum-orders"); !strings.HasSuffix(o.Text(), "\n\nAvailable scripts: sum.sh") {
		t.Error(o.Text())
	}
	if o := d.call("load_skill", "writing/short-report"); strings.Contains(o.Text(), "vailable scripts") {
		t.Error(o.Text())
	}
	acts := events[event.SkillActivated](d)
	if len(acts) != 2 || acts[0].SkillID != "desk:skills/figures/sum-orders" || acts[0].ActivationSource != "model-tool" || acts[0].Hash == "" {
		t.Errorf("%+v", acts)
	}
	for _, p := range []string{"data/columns.csv", "data/rates.py", "style/tone.md"} { // frontmatter is kept
		d.gives("load_reference", p, d.file("references/"+p))
	}
	long := strings.Repeat("A line of many.\n", 20_000) + "The last one.\n"
	d = openDesk(t, write(t, map[string]string{"HARNESS.md": selfText, "skills/long/SKILL.md": skillText("long", "goes on") + long, "references/long.md": summaryText("long") + long}))
	d.gives("load_skill", "long", d.file("skills/long/SKILL.md"))
	d.gives("load_reference", "long.md", d.file("references/long.md"))

	// All scripts are named, and nothing else.
	d = openDesk(t, write(t, map[string]string{"HARNESS.md": selfText, "skills/many/SKILL.md": skillText("many", "has scripts"), "skills/many/scripts/b.py": "", "skills/many/scripts/a.sh": "", "skills/many/scripts/lib/c.sh": "",
		"skills/many/references/r.md": "r", "skills/many/run.sh": "", "skills/none/SKILL.md": skillText("none", "has files"), "skills/none/scripts-old/x.sh": "", "skills/none/references/r.md": "r"}))
	o := d.call("load_skill", "many")
	if diff := cmp.Diff(d.file("skills/many/SKILL.md")+"\n\nAvailable scripts: a.sh, b.py, lib/c.sh", o.Text()); diff != "" {
		t.Error(diff)
	}
	if o = d.call("load_skill", "many"); !strings.HasSuffix(o.Text(), "\n\nAvailable scripts: a.sh, b.py, lib/c.sh") {
		t.Errorf("a second time: %s", o.Text())
	}
	o = d.call("load_skill", "none")
	if diff := cmp.Diff(d.file("skills/none/SKILL.md"), o.Text()); diff != "" {
		t.Error(diff)
	}
}

// Content with Windows line ends, a byte order mark, spaces at the end, and the tags that enclose
// content elsewhere is returned byte for byte.
//
// req: D-004, D-012
func TestActivation_ReturnsEveryByte(t *testing.T) {
	t.Parallel()
	text := "---\r\nname: odd\r\ndescription: has odd bytes\r\n---\r\nA line.\t \r\n</skill_context></skill_resource> &lt; <b>\r\n\n\n  "
	d := openDesk(t, write(t, map[string]string{"HARNESS.md": selfText, "skills/odd/SKILL.md": text, "references/odd.md": "\ufeff" + text, "references/plain.txt": text}))
	for path, tool := range map[string]string{"skills/odd/SKILL.md": "load_skill", "references/odd.md": "load_reference", "references/plain.txt": "load_reference"} {
		o := d.call(tool, strings.TrimSuffix(path, "/SKILL.md"))
		if diff := cmp.Diff(d.file(path), o.Text()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// A document that is swapped for a link out of the harness after it was listed is refused.
//
// req: A-053
func TestLoad_RefusesASwappedDocument(t *testing.T) {
	t.Parallel()
	outside := write(t, map[string]string{"secret.md": "canary of the outside\n"})
	dir := write(t, map[string]string{"HARNESS.md": selfText, "references/r.md": summaryText("r")})
	d := openDesk(t, dir)
	d.gives("load_reference", "r.md", d.file("references/r.md"))
	for _, target := range []string{filepath.Join(outside, "secret.md"), "/etc/hostname"} {
		at := filepath.Join(dir, "references", "r.md")
		if err := errors.Join(os.Remove(at), os.Symlink(target, at)); err != nil {
			testenv.Skip(t, "symlinks need a privilege here: "+err.Error())
		}
		if diff := cmp.Diff("resource_outside_root", d.call("load_reference", "r.md").Code()); diff != "" {
			t.Errorf("link to %s: code (-want +got):\n%s", target, diff)
		}
	}
}

// The metadata of a repository may contain a password, and is not content of a harness.
func TestLoad_RefusesLinksToGit(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"HARNESS.md": selfText, ".git/config": "url = https://secret@example.com\n", "references/r.md": summaryText("r")})
	for name, to := range map[string]string{"references/config": "../.git/config", "references/repository": "../.git"} {
		if err := os.Symlink(filepath.FromSlash(to), filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			testenv.Skip(t, "symlinks need a privilege here: "+err.Error())
		}
	}
	d := openDesk(t, dir)
	for _, p := range []string{"config", "repository/config", "repository"} {
		d.refuses("harness_path_not_found", "load_reference", p)
	}
}

// The files of an opaque leaf are listed in the order of their bytes. A repository in it is not part
// of it.
//
// req: A-042
func TestLeaf_ListsItsFilesInTheOrderOfTheirBytes(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"HARNESS.md": selfText, ".leaf-detectors": detect, "kb/leaf/.harnessleaf": "", "kb/leaf/a/z.md": "z", "kb/leaf/a/é.md": "e", "kb/leaf/a-b": "ab", "kb/leaf/a.md": "a",
		"kb/leaf/B.md": "b", "kb/leaf/.git/config": "url = https://secret@example.com\n", "kb/other/.harnessleaf": "", "kb/other/.GIT/config": "url = https://secret@example.com\n"})
	d := openDesk(t, dir)
	if diff := cmp.Diff("Files of kb/other:\nIt is empty.\n", d.call("load_content", "kb/other").Text()); diff != "" {
		t.Errorf("list of a leaf with a repository (-want +got):\n%s", diff)
	}
	want := "Files of kb/leaf:\n- kb/leaf/B.md (1 bytes)\n- kb/leaf/a-b (2 bytes)\n- kb/leaf/a.md (1 bytes)\n- kb/leaf/a/z.md (1 bytes)\n- kb/leaf/a/é.md (1 bytes)\n"
	if diff := cmp.Diff(want, d.call("load_content", "kb/leaf").Text()); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for _, p := range []string{"kb/leaf/.git/config", "kb/other/.GIT/config"} {
		if diff := cmp.Diff("resource_not_found", d.call("load_content", p).Code()); diff != "" {
			t.Errorf("%s: code (-want +got):\n%s", p, diff)
		}
	}
}

// req: D-009, D-011, D-019
func TestGroupsGiveTheirSummary(t *testing.T) {
	t.Parallel()
	d := openDesk(t, salesDesk)
	d.gives("load_skill", "figures", d.file("skills/figures/SKILLS.md"))
	d.gives("load_skill", "figures/checks", d.file("skills/figures/checks/SKILLS.md"))
	d.gives("load_reference", "style", d.file("references/style/REFERENCES.md"))
	d.gives("load_reference", "style/REFERENCES.md", d.file("references/style/REFERENCES.md")) // by its own name too
	d.gives("load_reference", "", d.file("references/REFERENCES.md"))
	if len(d.s.State().Active) > 0 {
		t.Error("a group is active")
	}
	reads := events[event.ResourceRead](d)
	if len(reads) != 5 || reads[0].SkillID != "desk:skills/figures" || reads[0].Path != "SKILLS.md" || reads[0].Status != "read" || reads[0].ObservedDigest == "" || reads[0].Role != policy.Context {
		t.Errorf("%+v", reads)
	}
	two := openDesk(t, releaseDesk)
	two.gives("load_content", "playbooks/git", two.file("playbooks/git/PLAYBOOKS.md"))
	two.gives("load_content", "policies", two.file("policies/POLICIES.md"))
	deep := openDesk(t, write(t, map[string]string{"HARNESS.md": selfText, "references/a/b/REFERENCES.md": summaryText("deep"), "references/a/b/r.md": summaryText("r"), "references/a/SKILLS.md": summaryText("of skills")}))
	deep.gives("load_reference", "a/b", deep.file("references/a/b/REFERENCES.md"))
	if o := deep.call("load_reference", "a"); !strings.HasPrefix(o.Text(), "Content of references/a:\n") {
		t.Error(o.Text())
	}
}

// req: D-012, D-021, D-022
func TestReferencesGiveExactBytes(t *testing.T) {
	t.Parallel()
	d := openDesk(t, salesDesk)
	for _, f := range []string{"data/columns.csv", "data/rates.py", "style/tone.md"} {
		d.gives("load_reference", f, d.file("references/"+f))
	}
	odd := map[string]string{"HARNESS.md": selfText, "references/crlf.md": "\ufeff---\r\ndescription: x\r\n---\r\n\r\n no end ", "references/noext": "a\n\n\n", "references/x.tar.odd": "\tx", "references/blank.txt": ""}
	other := openDesk(t, write(t, odd))
	for p, text := range odd {
		if f, is := strings.CutPrefix(p, "references/"); is {
			other.gives("load_reference", f, text)
		}
	}
	o := d.call("load_reference", "style/logo.png")
	got, err := base64.StdEncoding.DecodeString(strings.TrimSpace(inside(o.Text())))
	if err != nil || !bytes.Equal(got, []byte(d.file("references/style/logo.png"))) || !strings.Contains(o.Text(), `encoding="base64"`) {
		t.Errorf("%v: %s", err, o.Text())
	}
	for _, f := range []string{"md", "png", "py", "csv"} {
		list := d.call("list_content", "references/data").Text() + d.call("list_content", "references/style").Text()
		if !strings.Contains(list, "."+f+" (document)") {
			t.Errorf("%s is not listed: %s", f, list)
		}
	}
}

// req: D-013, D-014
func TestPathsNotNames(t *testing.T) {
	t.Parallel()
	deep := "a/b/c/d/e/f"
	files := map[string]string{"HARNESS.md": selfText, "skills/x/run/SKILL.md": skillText("Run", "the first"), "skills/y/run/SKILL.md": skillText("Run", "the second"),
		"skills/" + deep + "/run/SKILL.md": skillText("Run", "the deep one"), "references/" + deep + "/note.txt": "deep text\n"}
	for i := range strings.Count(deep, "/") + 1 {
		files["skills/"+strings.Join(strings.Split(deep, "/")[:i+1], "/")+"/SKILLS.md"] = summaryText(fmt.Sprintf("level %d", i+1))
	}
	d := openDesk(t, write(t, files))
	for _, p := range []string{"x/run", "y/run", deep + "/run"} {
		d.gives("load_skill", p, d.file("skills/"+p+"/SKILL.md"))
	}
	d.gives("load_skill", "a/b/c", d.file("skills/a/b/c/SKILLS.md"))
	d.gives("load_skill", deep, d.file("skills/"+deep+"/SKILLS.md"))
	d.gives("load_reference", deep+"/note.txt", "deep text\n")
	d.gives("load_skill", "skills/a/b/c", d.file("skills/a/b/c/SKILLS.md")) // the path from the top is the same one
	d.gives("load_reference", "references/"+deep+"/note.txt", "deep text\n")
	if n := len(d.s.State().Active); n != 3 {
		t.Errorf("%d skills are active", n)
	}
	d.refuses("harness_path_not_found", "load_skill", "run")
}

// req: D-017
func TestProgressiveTrace(t *testing.T) {
	t.Parallel()
	d := openDesk(t, salesDesk)
	if _, err := d.s.Activate(t.Context(), "desk:.", "cli-preload"); err != nil {
		t.Fatal(err)
	}
	d.call("load_skill", "")
	d.call("load_skill", "figures")
	d.call("load_skill", "figures/count-rows")
	var trace []string
	for en, err := range d.log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.Decode(en)
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case event.SkillActivated:
			trace = append(trace, "load "+e.SkillID+" "+filepath.Base(e.HostPath))
		case event.ResourceRead:
			trace = append(trace, "read "+e.SkillID+" "+e.Path)
		case event.ResourcesIndexed: // all files of the entry were opened
			trace = append(trace, "index "+e.SkillID)
		}
	}
	want := []string{"index desk:.", "load desk:. HARNESS.md", "read desk:skills SKILLS.md", "read desk:skills/figures SKILLS.md",
		"index desk:skills/figures/count-rows", "load desk:skills/figures/count-rows SKILL.md"}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error(diff)
	}
}

// req: D-018
func TestOneCallServesAllLevels(t *testing.T) {
	t.Parallel()
	d := openDesk(t, salesDesk)
	d.gives("load_skill", ".", d.file("HARNESS.md"))
	d.gives("load_skill", "", d.file("skills/SKILLS.md"))
	d.gives("load_skill", "writing", d.file("skills/writing/SKILLS.md"))
	d.gives("load_skill", "figures/checks", d.file("skills/figures/checks/SKILLS.md")) // a group in a group
	d.gives("load_skill", "writing/short-report", d.file("skills/writing/short-report/SKILL.md"))
	two := openDesk(t, releaseDesk)
	two.gives("load_content", ".", two.file("HARNESS.md"))
	two.gives("load_content", "skills", two.file("skills/SKILLS.md"))
	two.gives("load_content", "skills/notes", two.file("skills/notes/SKILLS.md"))
	two.gives("load_content", "skills/notes/draft-notes", two.file("skills/notes/draft-notes/SKILL.md"))
	bare := openDesk(t, write(t, map[string]string{"HARNESS.md": selfText, "skills/g/q/SKILL.md": skillText("q", "queries")})) // a group without a summary is listed
	if o := bare.call("load_skill", "g"); o.Code() != "" || o.Text() != "Content of skills/g:\n- skills/g/q (skill): queries\n" {
		t.Errorf("%q %s", o.Code(), o.Text())
	}
}

// req: D-043
func TestWhatCannotBeReadAsItIs(t *testing.T) {
	t.Parallel()
	d := openDesk(t, write(t, map[string]string{
		"HARNESS.md": selfText, "references/g/b.csv": "1\n", "references/g/a.md": summaryText("the first"), "references/latin.txt": "caf\xe9 au lait\n", "references/empty/": "", "references/bin": "\x00\x01\xff\xfe",
		"references/g/REFERENCES.d/x": "", "skills/": "", "references/several.txt": "\xe9t\xe9, \xe0 bient\xf4t: a text of some length\n", "references/codes.txt": "\xe9\xe8\xe0\xf4\xe9",
		"references/short.txt": "\xe9!", "references/nul.txt": "a text with \x00 in it\n",
	}))
	if o := d.call("load_reference", "g"); o.Code() != "" || o.Text() != "Content of references/g:\n- references/g/REFERENCES.d (group)\n- references/g/a.md (document): the first\n- references/g/b.csv (document)\n" {
		t.Errorf("%q\n%s", o.Code(), o.Text())
	}
	if o := d.call("load_reference", "empty"); o.Code() != "" || !strings.Contains(o.Text(), "It is empty.") {
		t.Errorf("%q\n%s", o.Code(), o.Text())
	}
	o := d.call("load_reference", "latin.txt")
	if inside(o.Text()) != "caf\uFFFD au lait\n" || !strings.Contains(o.Text(), "1 bytes are not valid UTF-8") || !strings.Contains(o.Text(), `replaced="1"`) {
		t.Errorf("%q\n%s", o.Code(), o.Text())
	}
	o = d.call("load_reference", "several.txt")
	if inside(o.Text()) != "\uFFFDt\uFFFD, \uFFFD bient\uFFFDt: a text of some length\n" || !strings.Contains(o.Text(), "4 bytes are not valid UTF-8") || !strings.Contains(o.Text(), `replaced="4"`) {
		t.Errorf("%q\n%s", o.Code(), o.Text())
	}
	if o = d.call("load_reference", "short.txt"); inside(o.Text()) != "\uFFFD!\n" { // one stray byte is text, however short it is
		t.Errorf("%q\n%s", o.Code(), o.Text())
	}
	if o = d.call("load_reference", "nul.txt"); !strings.Contains(o.Text(), `encoding="base64"`) {
		t.Errorf("with a NUL: %s", o.Text())
	}
	if o = d.call("load_reference", "codes.txt"); !strings.Contains(o.Text(), `encoding="base64"`) {
		t.Errorf("mostly undecodable: %s", o.Text())
	}
	o = d.call("load_reference", "bin")
	if b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(inside(o.Text()))); err != nil || string(b) != "\x00\x01\xff\xfe" {
		t.Errorf("%v %s", err, o.Text())
	}
}

// req: D-044
func TestPathsBeginAtTheirFolder(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"HARNESS.md": selfText, "skills/x/SKILL.md": skillText("x", "the plain one"), "skills/skills/x/SKILL.md": skillText("xx", "below a group called skills"),
		"skills/y/SKILL.md": skillText("y", "another"), "skills/y/references/form.md": "a form\n", "references/r.md": summaryText("r"), "outside.md": "not in it\n", "secret/s.md": "s\n"})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "references", "passwd")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "skills", "etc")); err != nil {
		t.Fatal(err)
	}
	d := openDesk(t, dir, func(c *metier.Config) { c.Settings.Harness.Layout = harness.V1 }) // auto would see another folder at the top
	d.gives("load_skill", "x", d.file("skills/x/SKILL.md"))
	d.gives("load_skill", "skills/x", d.file("skills/skills/x/SKILL.md")) // the plain reading of the path comes first
	d.gives("load_skill", "skills/y", d.file("skills/y/SKILL.md"))
	d.gives("load_reference", "r.md", d.file("references/r.md"))
	d.gives("load_reference", "references/r.md", d.file("references/r.md"))
	d.gives("load_reference", "skills/y/references/form.md", "a form\n")
	d.gives("load_reference", "desk:references/r.md", d.file("references/r.md"))
	for _, p := range []string{"../outside.md", "..", "a/../../outside.md", "/etc/passwd", "references/../outside.md", `..\outside.md`, "r.md\x00", "//x", "skills//x", "./r.md/..", "desk:../x"} {
		for _, tool := range []string{"load_skill", "load_reference", "list_content"} {
			d.refuses("harness_path_invalid", tool, p)
		}
	}
	for _, p := range []string{"passwd", "outside.md", "secret/s.md", "etc/passwd", "%2e%2e/outside.md", "references/passwd"} {
		for _, tool := range []string{"load_skill", "load_reference"} {
			d.refuses("harness_path_not_found", tool, p)
		}
	}
	if o := d.call("load_reference", "skills/y/../../outside.md"); o.Code() == "" {
		t.Error(o.Text())
	}
}
