package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"metier"
	"metier/event"
	"metier/internal/testenv"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/source/local"
	"metier/source/sourcetest"
)

// attack is one attack of a kind that real skills made on what reads their
// files.
type attack struct {
	n    int
	name string
	try  func(t *testing.T)
}

// TestReadersWithstand runs the attacks on reading, each with its number in the
// project's list of attacks: paths, kinds of files, races, scans. 34, a script
// that changes after its approval, is about running, and sandboxtest has it.
// Unless a case states otherwise, the reader is Session.Read and the model's
// tool, over a snapshot of a folder.
func TestReadersWithstand(t *testing.T) {
	t.Parallel()
	all := slices.Concat(onPaths, onKinds, onRaces, onScans)
	for n, missing := 1, 34; n <= 41; n++ {
		if has := slices.ContainsFunc(all, func(a attack) bool { return a.n == n }); has == (n == missing) {
			t.Errorf("attack %d: in the table %t", n, has)
		}
	}
	for _, a := range all {
		t.Run(fmt.Sprintf("%02d %s", a.n, a.name), func(t *testing.T) {
			t.Parallel()
			a.try(t)
		})
	}
}

const (
	inside = "this is inside"
	canary = "the canary is outside"
)

// victim is a skill named guide with one file, references/a.md, and a canary
// beside its root.
type victim struct {
	t    *testing.T
	dir  string
	opt  local.Options
	set  settings.Settings
	tier policy.Tier
	src  metier.Source // nil: that of the folder
	spy  *spy
	*metier.Session
}

// spy is a record that notices the canary.
type spy struct {
	*record.Memory
	caught atomic.Bool
}

func (s *spy) Append(ctx context.Context, after record.Head, e ...record.Entry) (record.Head, error) {
	for _, x := range e {
		s.look(x.Data)
	}
	return s.Memory.Append(ctx, after, e...)
}

func (s *spy) Put(ctx context.Context, media string, b []byte) (record.Ref, error) {
	s.look(b)
	return s.Memory.Put(ctx, media, b)
}

func (s *spy) look(b []byte) {
	if bytes.Contains(b, []byte(canary)) {
		s.caught.Store(true)
	}
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	return victimIn(t, base(t))
}

func victimIn(t *testing.T, dir string) *victim {
	t.Helper()
	v := &victim{t: t, dir: dir, set: defaults(t), tier: policy.Project, spy: &spy{Memory: record.NewMemory()}}
	v.opt = local.Options{Symlinks: v.set.Discover.Symlinks}
	v.set.Discover.ResourceIndex = settings.ResourceIndexStart
	put(t, v.dir, "root/guide/SKILL.md", sourcetest.Skill("guide", "shows the way"))
	put(t, v.dir, "root/guide/references/a.md", inside)
	put(t, v.dir, "outside/secret", canary)
	return v
}

// at returns the host path of a file of the skill.
func (v *victim) at(path string) string {
	return filepath.Join(v.dir, "root", "guide", filepath.FromSlash(path))
}

func (v *victim) outside() string { return filepath.Join(v.dir, "outside", "secret") }

// open lists the root, hashes its skills' files, and starts a session.
func (v *victim) open() *victim {
	v.t.Helper()
	src := v.src
	if src == nil {
		src = open(v.t, filepath.Join(v.dir, "root"), &v.opt)
	}
	snap, err := metier.Build(v.t.Context(), []metier.Mount{{Label: "skills", Tier: v.tier, Source: src, Root: filepath.Join(v.dir, "root")}},
		v.set.Parse, v.set.Names, v.set.Read.IndexRoot, true)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, sk := range snap.All() {
		if said := fmt.Sprintf("%+v", sk); strings.Contains(said, canary) {
			v.t.Fatalf("the snapshot has the canary: %s", said)
		}
	}
	return v.begin(snap)
}

// begin starts a separate session over a snapshot.
func (v *victim) begin(snap *metier.Snapshot) *victim {
	v.t.Helper()
	v.spy.Memory = record.NewMemory()
	s, err := metier.Open(v.t.Context(), metier.Config{ID: "s1", By: "tester", Log: v.spy, Blobs: v.spy, Snapshot: snap, Settings: v.set, Batch: true,
		Grants: policy.Grants{Mode: policy.Mode(v.set.Policy.Mode), Tools: v.set.Tools.Default,
			Narrow: policy.Narrowing(v.set.Policy.AllowedTools), Merge: policy.Merge(v.set.Policy.Merge)}})
	if err != nil {
		v.t.Fatal(err)
	}
	v.Session = s
	return v
}

// reads reads a file as the operator and as the model do, which is the same,
// and answers far faster than its time limit.
func (v *victim) reads(skill, path string) metier.Observation {
	v.t.Helper()
	var asOperator, asModel metier.Observation
	var err error
	within(v.t, func() {
		if asOperator, err = v.Read(v.t.Context(), skill, path, 0); err != nil {
			return
		}
		var raw []byte
		if raw, err = json.Marshal(map[string]string{"skill": skill, "path": path}); err == nil {
			asModel, err = v.Call(v.t.Context(), metier.Call{ID: fmt.Sprintf("m%d", time.Now().UnixNano()), Tool: settings.ToolReadSkillResource, Args: raw})
		}
	})
	if err != nil {
		v.t.Fatalf("%s %.60q: %v", skill, path, err)
	}
	if asOperator.Code() != asModel.Code() {
		v.t.Errorf("%s %.60q: %q for the operator, %q for the model", skill, path, asOperator.Code(), asModel.Code())
	}
	for _, o := range []metier.Observation{asOperator, asModel} {
		if strings.Contains(o.Text()+string(o.Detail()), canary) || v.spy.caught.Load() {
			v.t.Fatalf("%s %.60q: the canary is read: %s", skill, path, o.Text())
		}
	}
	return asModel
}

// refuses expects a read to fail with a code, and the record to have the same
// code and nothing of the file's content.
func (v *victim) refuses(path string, codes ...string) {
	v.t.Helper()
	o := v.reads("guide", path)
	if !slices.Contains(codes, o.Code()) {
		v.t.Errorf("%.60q: code %q, want %q: %.200s", path, o.Code(), codes, o.Text())
	}
	if e := v.last(); e.Code != o.Code() || e.Status != "error" || e.ObservedDigest != "" {
		v.t.Errorf("%.60q is recorded as %+v", path, e)
	}
}

// gives expects a read to return a text, and returns the whole answer.
func (v *victim) gives(path, text string) string {
	v.t.Helper()
	o := v.reads("guide", path)
	if o.Code() != "" || !strings.Contains(o.Text(), ">\n"+text+"\n<") {
		v.t.Errorf("%.60q: code %q, want %q: %.300s", path, o.Code(), text, o.Text())
	}
	return o.Text()
}

// last returns the newest read in the record.
func (v *victim) last() (last event.ResourceRead) {
	v.t.Helper()
	for en, err := range v.spy.Read(v.t.Context(), 1) {
		if err != nil {
			v.t.Fatal(err)
		}
		if e, err := event.Decode(en); err == nil {
			if r, is := e.(event.ResourceRead); is {
				last = r
			}
		}
	}
	return last
}

// within fails the test when f hangs.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatal("no answer")
	}
}

// refused is an attack by paths that no reader may follow.
func refused(n int, name, code string, paths ...string) attack {
	return attack{n, name, func(t *testing.T) {
		v := newVictim(t).open()
		for _, p := range paths {
			v.refuses(strings.ReplaceAll(p, "{outside}", filepath.ToSlash(v.outside())), code)
		}
		v.gives("references/a.md", inside)
	}}
}

// itself is an attack by names that mean no other file: a file with each of the
// names exists, has its own name in hex as its text, and is returned exactly.
func itself(n int, name string, names ...string) attack {
	return attack{n, name, func(t *testing.T) {
		v := newVictim(t)
		for _, f := range names {
			if err := os.WriteFile(v.at("references/"+f), []byte(fmt.Sprintf("file %x", f)), 0o644); err != nil {
				testenv.Skip(t, fmt.Sprintf("such names cannot be on %s: %v", runtime.GOOS, err))
			}
		}
		for _, f := range names {
			if b, _ := os.ReadFile(v.at("references/" + f)); string(b) != fmt.Sprintf("file %x", f) {
				testenv.Skip(t, fmt.Sprintf("this file system takes %+q for another name", f))
			}
		}
		v.open()
		for _, f := range names {
			text := v.gives("references/"+f, fmt.Sprintf("file %x", f))
			head, _, _ := strings.Cut(text, ">\n")
			if i := strings.IndexFunc(head, unprintable); i >= 0 || strings.Count(head, "<") != 1 || strings.Count(head, "\n") > 0 {
				t.Errorf("%+q: the answer begins with %+q", f, head)
			}
		}
	}}
}

// unprintable matches characters that move, hide or color text.
func unprintable(r rune) bool {
	return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000
}

const invalid = "resource_path_invalid"

var onPaths = []attack{
	refused(1, "parent", invalid, "../x", "../../outside/secret", "..", "references/.."),
	refused(2, "parent inside", invalid, "references/../../../outside/secret", "references/../references/a.md", "./../x"),
	refused(3, "absolute", invalid, "{outside}", "/etc/passwd", "/"),
	refused(4, "slashes too many", invalid, "//x", "./", "references//a.md", "references/a.md/", "/references/a.md"),
	{4, "slash behind a link", func(t *testing.T) {
		v := newVictim(t)
		link(t, filepath.Dir(v.outside()), v.at("link"))
		v.open()
		v.refuses("link/", invalid)
		v.refuses("link/secret", "resource_outside_root")
	}},
	refused(5, "nothing, and the folder itself", invalid, "", ".", "./.", "./"),
	refused(6, "NUL", invalid, "references/a.md\x00", "\x00", "references/a.md\x00.png"),
	refused(7, "back-slash, drive, UNC, stream", invalid, `references\a.md`, `..\..\outside\secret`, "C:/x", `C:\x`, "c:x", "C:", "./C:/x", `\\host\share\x`, `\\?\C:\x`),
	{7, "stream of a file", func(t *testing.T) {
		v := newVictim(t).open()
		for _, p := range []string{"references/a.md:stream", "references/a.md::$DATA"} {
			v.refuses(p, "resource_not_indexed", "resource_not_found", invalid)
		}
	}},
	{8, "encoded dots", func(t *testing.T) {
		v := newVictim(t)
		put(t, v.at("."), "%2e%2e/a.md", "a name like any other")
		v.open()
		for _, p := range []string{"%2e%2e/%2e%2e/outside/secret", "%2e%2e%2f%2e%2e%2foutside%2fsecret", "%252e%252e/%252e%252e/outside/secret", "..%2f..%2foutside%2fsecret", "references%2fa.md", "%2fetc%2fpasswd"} {
			v.refuses(p, "resource_not_found")
		}
		v.gives("%2e%2e/a.md", "a name like any other")
	}},
	refused(9, "too long", invalid, strings.Repeat("a/", 2047)+"aa", strings.Repeat("n", 256), "references/"+strings.Repeat("n", 8<<10)),
	{10, "no UTF-8", func(t *testing.T) {
		v := newVictim(t)
		if runtime.GOOS == "linux" { // other systems do not allow such names
			put(t, v.at("references"), "b\xff.md", canary)
		}
		v.open()
		// JSON cannot represent this text: the name of a caller is another
		// name.
		for _, p := range []string{"references/b\xff.md", "references/b\xc0\xae\xc0\xae/x", "references/b\ufffd.md", "..\xc0\xafx"} {
			v.refuses(p, "resource_not_found", invalid)
		}
		sk, err := v.Snapshot().Find("guide")
		if err != nil || len(sk.Resources) != 2 || runtime.GOOS == "linux" && !slices.Contains(codes(sk.Diagnostics), "unresolvable-skill-resource") {
			t.Errorf("%+v, %v", sk, err)
		}
	}},
	itself(11, "names that are equal once composed", "caf\u00e9.md", "cafe\u0301.md", "\ufb01.md", "fi.md", "\uff41.md", "\u212b.md", "\u00c5.md"),
	itself(12, "names that are equal but for case", "B.md", "b.md", "I.md", "i.md", "\u0130.md", "\u0131.md", "\u00df.md", "ss.md"),
	{12, "two skill files", func(t *testing.T) {
		v := newVictim(t)
		if runtime.GOOS == "linux" {
			put(t, v.at("."), "skill.md", sourcetest.Skill("guide", "the other"))
		}
		v.open()
		if o := v.reads("guide", "SKILL.md"); !strings.Contains(o.Text(), "shows the way") {
			t.Errorf("SKILL.md: %s", o.Text())
		}
		if o := v.reads("guide", "Skill.md"); o.Code() == "" && strings.Contains(o.Text(), "the other") {
			t.Errorf("Skill.md: %s", o.Text())
		}
	}},
	itself(13, "names that turn or hide text", "a\u202egnp.md", "a\u200bb.md", "ab.md", "a\u2066b\u2069.md", "a\U000e0041b.md", "\ufeffa.md"),
	itself(14, "names that begin an option, a line, a colour or a quote", "-rf", "--", "-", "a\nb.md", "a\x1b[31mb.md", "a\x1b]0;t\x07.md", `a"b.md`, "a'b.md", "a\rb.md", "a>b<skill_resource>.md", "$(id).md", "`id`.md", ";id", "a\u009bb"),
	itself(15, "names that systems keep for themselves", "CON", "NUL.md", "aux", "COM1.txt", "LPT9", "CONIN$", "dot.", "space ", "~", "~root", "*", "?.md", "a:b"),
	{16, "skills that are paths", func(t *testing.T) {
		v := newVictim(t)
		put(t, v.dir, "outside/SKILL.md", sourcetest.Skill("outside", canary))
		v.open()
		for _, name := range []string{"..", ".", "/", "../outside", "guide/../../outside", "guide/..", filepath.Join(v.dir, "outside"), "skills:..", "skills:../outside", "skills:guide/../../outside", `..\outside`, "guide\x00", "guide/references", "guide/"} {
			if o := v.reads(name, "SKILL.md"); o.Code() != "skill_not_found" {
				t.Errorf("skill %q: code %q: %s", name, o.Code(), o.Text())
			}
			if b, err := open(t, filepath.Join(v.dir, "root"), nil).Open(t.Context(), name); err == nil && name != "." {
				b.Close()
				t.Errorf("the source opens %q", name)
			}
		}
		if o := v.reads("skills:guide", "references/a.md"); o.Code() != "" {
			t.Errorf("its whole name: %s", o.Text())
		}
	}},
}

func decode(t *testing.T, raw json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}
