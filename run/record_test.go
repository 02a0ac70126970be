package run_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/record"
	"metier/run"
)

// req: C-006
func TestTwoIdenticalRunsGiveEqualLogsButForTimesAndIDs(t *testing.T) {
	t.Parallel()
	skills := skillsFolder(t)
	logs := make([][]byte, 2)
	raw := make([][]byte, 2)
	for i, id := range []string{"first-run", "second-run"} {
		f, _ := create(t, t.TempDir(), id, nil)
		work(t, f, skills, nil, nil) // the real clock and real random numbers
		logs[i] = must[[]byte](t)(run.Normalize(t.Context(), f.Log(), f.Blobs()))
		raw[i] = must[[]byte](t)(os.ReadFile(f.Path("events.jsonl")))
		if len(logs[i]) < 1000 || bytes.Contains(logs[i], []byte(id)) {
			t.Errorf("the normalized log is short or holds the id:\n%s", logs[i])
		}
	}
	if d := cmp.Diff(string(logs[0]), string(logs[1])); d != "" {
		t.Error(d)
	}
	if bytes.Equal(raw[0], raw[1]) {
		t.Error("the logs themselves are equal: the test compares nothing")
	}
	ok(t, os.WriteFile(filepath.Join(skills, "beta", "SKILL.md"), []byte("---\nname: beta\ndescription: Use when counting to two.\n---\nCount to three.\n"), 0o644))
	f, _ := create(t, t.TempDir(), "third-run", nil)
	work(t, f, skills, nil, nil)
	if bytes.Equal(logs[0], must[[]byte](t)(run.Normalize(t.Context(), f.Log(), f.Blobs()))) {
		t.Error("a run with another skill text gives the same normalized log")
	}
}

func TestProjectionIsAFunctionOfTheLog(t *testing.T) {
	t.Parallel()
	f := real(t)
	first := files(t, f)
	for name := range first {
		ok(t, os.Remove(f.Path(name)))
	}
	ok(t, f.Project(t.Context()))
	if d := cmp.Diff(first, files(t, f)); d != "" {
		t.Error(d)
	}
}

// req: C-055
func TestReplayShowsTheActiveSetOrNamesTheChangedHash(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "replay", nil)
	act := a.open("cli-preload")
	next := act
	next.Call, next.TaskID, next.SkillID, next.Name, next.ActivationSource = "load2", "load2", "skills:beta", "beta", "model-tool"
	a.add(next)
	ok(t, f.Close())
	f = must[*run.Folder](t)(run.Look(root, "replay", nil))
	defer f.Close()
	same := func(string) (string, string, error) { return act.Hash, act.Tree, nil }
	r := must[run.ReplayReport](t)(run.Replay(t.Context(), f, same))
	want := []run.ReplayedSkill{{SkillID: "skills:alpha", Name: "alpha", Hash: act.Hash, Tree: act.Tree, Tier: "project", ActivationSource: "cli-preload", State: "verified", Original: "held"},
		{SkillID: "skills:beta", Name: "beta", Hash: act.Hash, Tree: act.Tree, Tier: "project", ActivationSource: "model-tool", State: "verified", Original: "held"}}
	if d := cmp.Diff(want, r.Active); d != "" || !r.OK || r.Err() != nil {
		t.Errorf("%s ok %t err %v", d, r.OK, r.Err())
	}
	now := digest.Bytes([]byte("edited"))
	r = must[run.ReplayReport](t)(run.Replay(t.Context(), f, func(string) (string, string, error) { return now, "", nil }))
	if r.OK || r.Active[0].State != "changed" {
		t.Errorf("a changed skill replays: %+v", r)
	}
	changed := []event.SkillDrifted{{SkillID: "skills:alpha", Path: act.Path, Was: act.Hash, Now: now}, {SkillID: "skills:beta", Path: act.Path, Was: act.Hash, Now: now}}
	if diff := cmp.Diff(changed, r.Changed); diff != "" {
		t.Error(diff)
	}
	if e := wantCode(t, r.Err(), run.CodeDrift, metier.Drift); !strings.Contains(e.Error(), "was "+act.Hash) || !strings.Contains(e.Error(), "is "+now) {
		t.Errorf("the error does not name the hashes: %v", e)
	}
	other := digest.Bytes([]byte("another tree"))
	for name, c := range map[string]struct {
		hash, tree string
		err        error
		state      string
	}{
		"another tree": {act.Hash, other, nil, "changed"}, "another text": {now, act.Tree, nil, "changed"},
		"nothing there": {"", "", &metier.Error{Kind: metier.NotFound, Code: "skill_not_found"}, "gone"},
	} {
		r := must[run.ReplayReport](t)(run.Replay(t.Context(), f, func(id string) (string, string, error) {
			if id == "skills:beta" {
				return c.hash, c.tree, c.err
			}
			return act.Hash, act.Tree, nil
		}))
		if r.OK || r.Err() == nil || r.Active[0].State != "verified" || r.Active[1].State != c.state {
			t.Errorf("%s of the second skill: %+v, %v", name, r, r.Err())
		}
	}
	if r = must[run.ReplayReport](t)(run.Replay(t.Context(), f, nil)); r.Active[0].State != "unchecked" || !r.OK {
		t.Errorf("without skills: %+v", r)
	}
	o, b := create(t, root, "other-original", nil) // a text that is not the one of the hash
	wrong := b.open("cli-preload")
	wrong.Call, wrong.TaskID, wrong.SkillID, wrong.Original = "load2", "load2", "skills:beta", b.blob("text/markdown", skillText+"More.\n")
	b.add(wrong)
	ok(t, o.Close())
	o = must[*run.Folder](t)(run.Look(root, "other-original", nil))
	defer o.Close()
	r = must[run.ReplayReport](t)(run.Replay(t.Context(), o, same))
	if r.OK || r.Err() == nil || len(r.Problems) != 1 || r.Problems[0].Code != record.CodeBlobAltered || r.Active[0].Original != "held" || r.Active[1].Original != "altered" {
		t.Errorf("an original that is not what was activated: %+v, %v", r, r.Err())
	}
	state := t.TempDir() // what is wrong with the record is said, too
	forged(t, openRun(t, root, "forged", state).Dir(), event.Note{Code: "strange"})
	g := must[*run.Folder](t)(run.Look(root, "forged", &run.Options{StateDir: state}))
	defer g.Close()
	if r = must[run.ReplayReport](t)(run.Replay(t.Context(), g, nil)); r.OK || len(r.Problems) != 1 || r.Problems[0].Code != record.CodeUnanchored {
		t.Errorf("a record with an entry that no head covers replays: %+v", r)
	}
}

// req: A-157
func TestUnchangedSkillsAreVerifiedAndChangedOnesDrift(t *testing.T) {
	t.Parallel()
	a := event.SkillActivated{SkillID: "s:a", Hash: "sha256:h", Tree: "sha256:t", Path: "/skills/a/SKILL.md", Dir: "/skills/a"}
	for name, c := range map[string]struct {
		file, tree string
		err        error
		want       []event.SkillDrifted
	}{
		"unchanged":        {"sha256:h", "sha256:t", nil, nil},
		"tree not known":   {"sha256:h", "", nil, nil},
		"instructions":     {"sha256:x", "sha256:t", nil, []event.SkillDrifted{{SkillID: "s:a", Path: "/skills/a/SKILL.md", Was: "sha256:h", Now: "sha256:x"}}},
		"another file":     {"sha256:h", "sha256:x", nil, []event.SkillDrifted{{SkillID: "s:a", Path: "/skills/a", Was: "sha256:t", Now: "sha256:x"}}},
		"gone":             {"", "", fs.ErrNotExist, []event.SkillDrifted{{SkillID: "s:a", Path: "/skills/a/SKILL.md", Was: "sha256:h"}}},
		"error with bytes": {"sha256:h", "sha256:t", errors.New("io"), []event.SkillDrifted{{SkillID: "s:a", Path: "/skills/a/SKILL.md", Was: "sha256:h"}}},
	} {
		got := run.Drift([]event.SkillActivated{a}, func(id string) (string, string, error) {
			if id != "s:a" {
				t.Errorf("asked for %s", id)
			}
			return c.file, c.tree, c.err
		})
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	b, c := event.SkillActivated{SkillID: "s:b", Hash: "sha256:h", HostPath: "/host/b/SKILL.md"}, event.SkillActivated{SkillID: "s:c", Hash: "sha256:h", Path: "/skills/c/SKILL.md"}
	got := run.Drift([]event.SkillActivated{a, b, c}, func(id string) (string, string, error) {
		return map[string]string{"s:a": "sha256:h", "s:b": "sha256:y", "s:c": "sha256:z"}[id], "", nil
	})
	want := []event.SkillDrifted{{SkillID: "s:b", Path: "/host/b/SKILL.md", Was: "sha256:h", Now: "sha256:y"}, {SkillID: "s:c", Path: "/skills/c/SKILL.md", Was: "sha256:h", Now: "sha256:z"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("of three skills: %s", d)
	}
}

// req: A-156
func TestResumeReadsRegistryAndActivationsAndMissesThem(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "r", nil)
	a.open("cli-preload")
	ok(t, f.Project(t.Context()))
	a.begin()
	a.turn(1) // the artifacts are older than the log now
	ok(t, f.Close())
	var log bytes.Buffer
	open := func() *run.Folder {
		return must[*run.Folder](t)(run.Open(root, "r", &run.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	}
	f = open()
	r := must[run.Restored](t)(f.Restore(t.Context()))
	if len(r.Registry.Skills) != 1 || len(r.Activations.Activations) != 1 || len(r.Active) != 1 || r.State.Turns != 1 {
		t.Errorf("restored %+v", r)
	}
	if !strings.Contains(string(r.Registry.Skills[0]), `"alpha"`) || r.Activations.Activations[0].Name != "alpha" || r.Active[0].SkillID != "skills:alpha" || r.Projected {
		t.Errorf("restored %+v", r)
	}
	for _, want := range []string{"skill registry loaded", "skill activations loaded"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not show %q:\n%s", want, log.String())
		}
	}
	for _, name := range []string{run.FileRegistry, run.FileActivations} {
		b := must[[]byte](t)(os.ReadFile(f.Path(name)))
		ok(t, os.Remove(f.Path(name)))
		_, err := f.Restore(t.Context())
		if e := wantCode(t, err, run.CodeNoArtifact, metier.NotFound); !strings.Contains(e.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, e)
		}
		ok(t, os.WriteFile(f.Path(name), bytes.Replace(b, []byte("alpha"), []byte("gamma"), 1), 0o600))
		_, err = f.Restore(t.Context())
		wantCode(t, err, run.CodeArtifact, metier.Drift)
		ok(t, os.WriteFile(f.Path(name), b, 0o600))
	}
	must[run.Restored](t)(f.Restore(t.Context()))
	ok(t, f.Close())
}

func TestARunThatCrashedBeforeItsFirstArtifactsIsRestoredFromTheLog(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "r", nil)
	a.open("cli-preload")
	if r := must[run.Restored](t)(f.Restore(t.Context())); !r.Projected || len(r.Active) != 1 {
		t.Errorf("restored %+v", r)
	}
}

func TestUnknownTypesRefuseResumeOnlyWhenTheyMustBeUnderstood(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "new", nil)
	a.open("cli-preload")
	appendRaw(t, f, record.Entry{V: 1, ID: "x", Type: "future.hint", Data: json.RawMessage(`{}`)})
	must[run.Restored](t)(f.Restore(t.Context()))
	ok(t, f.Project(t.Context()))
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); !rep.OK {
		t.Errorf("%+v", rep.Problems)
	}
	appendRaw(t, f, record.Entry{V: 1, ID: "y", Type: "future.rule", Must: true, Data: json.RawMessage(`{}`)})
	_, err := f.Restore(t.Context())
	wantCode(t, err, run.CodeNewer, metier.Unsupported)
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); rep.OK || rep.Problems[0].Code != run.CodeNewer {
		t.Errorf("%+v", rep.Problems)
	}
}

func TestCheckpointIsTakenOnlyForTheLogsHead(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "c", nil)
	a.open("cli-preload")
	a.begin()
	ok(t, f.Project(t.Context()))
	forge := func() {
		s := readJSON[run.State](t, f, run.FileState)
		s.Model = "forged"
		ok(t, os.WriteFile(f.Path(run.FileState), must[[]byte](t)(json.Marshal(s)), 0o600))
	}
	forge()
	if s := must[run.State](t)(f.State(t.Context())); s.Model != "forged" {
		t.Error("the checkpoint of this head was not taken")
	}
	a.turn(1)
	if s := must[run.State](t)(f.State(t.Context())); s.Model != "scripted:x" || s.Turns != 1 {
		t.Errorf("an old checkpoint was taken: %+v", s)
	}
	ok(t, f.Project(t.Context()))
	for name, change := range map[string]func(*run.State){
		"other rules":   func(s *run.State) { s.Rules = 99 },
		"another hash":  func(s *run.State) { s.Head.Hash = digest.Bytes(nil) },
		"another run":   func(s *run.State) { s.RunID = "d" },
		"another count": func(s *run.State) { s.Seq++ },
	} {
		s := readJSON[run.State](t, f, run.FileState)
		s.Model = "forged"
		change(&s)
		ok(t, os.WriteFile(f.Path(run.FileState), must[[]byte](t)(json.Marshal(s)), 0o600))
		if s := must[run.State](t)(f.State(t.Context())); s.Model != "scripted:x" {
			t.Errorf("a checkpoint of %s was taken", name)
		}
		ok(t, f.Project(t.Context()))
	}
}

func TestVerifyTellsAChangedArtifactFromAnOldOne(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "v", nil)
	a.open("cli-preload")
	a.begin()
	ok(t, f.Project(t.Context()))
	a.turn(1)
	rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f))
	if !rep.OK || rep.Artifacts[run.FileTranscript] != "stale" || rep.Artifacts[run.FileRegistry] != "equal" || rep.Artifacts[run.FileState] != "stale" {
		t.Errorf("old artifacts: %v %+v", rep.Artifacts, rep.Problems)
	}
	ok(t, f.Project(t.Context()))
	for _, name := range []string{run.FilePolicyTrace, run.FileActivations, "tool-outputs/t1.c1-write_file.json"} {
		b := must[[]byte](t)(os.ReadFile(f.Path(name)))
		ok(t, os.WriteFile(f.Path(name), bytes.Replace(b, []byte("load_skill"), []byte("load_skull"), 1), 0o600))
		if name != run.FilePolicyTrace {
			ok(t, os.WriteFile(f.Path(name), append(b, ' '), 0o600))
		}
		rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f))
		if rep.OK || rep.Artifacts[name] != "differs" {
			t.Errorf("%s was changed and is %s", name, rep.Artifacts[name])
		}
		ok(t, os.WriteFile(f.Path(name), b, 0o600))
	}
	ok(t, os.WriteFile(f.Path("tool-outputs/t9.c9-bash.json"), []byte("{}\n"), 0o600))
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); rep.Artifacts["tool-outputs/t9.c9-bash.json"] != "unknown" {
		t.Errorf("a forged output is %q", rep.Artifacts["tool-outputs/t9.c9-bash.json"])
	}
}

func TestShowReportsWhatTheRunDid(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "show", nil)
	a.open("cli-preload")
	a.begin()
	a.turn(1)
	a.turn(2)
	ok(t, f.Close())
	f = must[*run.Folder](t)(run.Look(root, "show", nil))
	r := must[run.Report](t)(run.Show(t.Context(), f))
	ok(t, f.Close())
	if r.Status != run.StatusInterrupted || r.Turns != 2 || r.Tokens.Total != 220 || *r.CostUSD != 0.005 || r.CostPartial || r.DurationMS <= 0 {
		t.Errorf("report %+v", r)
	}
	if len(r.Files) != 2 || r.Files[0].Path != "/workspace/out.txt" || r.Files[0].Before != "absent" || len(r.Activations) != 1 || len(r.Decisions) != 3 {
		t.Errorf("files %+v, decisions %d", r.Files, len(r.Decisions))
	}
	b := must[[]byte](t)(json.Marshal(r))
	var shape map[string]any
	ok(t, json.Unmarshal(b, &shape))
	for _, key := range []string{"id", "status", "model", "turns", "tokens", "activations", "reads", "scripts", "decisions", "files", "head"} {
		if v, there := shape[key]; !there || v == nil {
			t.Errorf("%s is missing in %s", key, b)
		}
	}
	valid(t, run.FileReport, b)
	f = must[*run.Folder](t)(run.Open(root, "show", nil))
	defer f.Close()
	a.f = f
	a.add(event.RunEnded{Run: "show", Status: "done", Answer: a.text("all done")})
	r = must[run.Report](t)(run.Show(t.Context(), f))
	if r.Status != run.StatusDone || string(r.Answer) != `"all done"` {
		t.Errorf("ended: %s %s", r.Status, r.Answer)
	}
}

func TestListHidesNothing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if l := must[[]run.Summary](t)(run.List(t.Context(), filepath.Join(root, "none"), nil)); len(l) != 0 {
		t.Errorf("no root: %v", l)
	}
	f, a := create(t, root, "a-parked", nil)
	a.open("cli-preload")
	a.begin()
	a.add(event.ApprovalRequested{Call: "t1.c1", ID: "q", Code: "c", Scopes: []string{"once"}, Text: a.text("?")}, event.RunWaiting{Run: "a-parked", Asks: []string{"q"}})
	ok(t, f.Close())
	_, a = create(t, root, "b-running", nil)
	a.open("cli-preload")
	a.begin()
	f, a = create(t, root, "c-dead", nil)
	a.open("cli-preload")
	a.begin()
	ok(t, f.Close())
	ok(t, os.Mkdir(filepath.Join(root, "d-empty"), 0o700))
	f, a = create(t, root, "e-altered", nil)
	a.open("cli-preload")
	ok(t, f.Close())
	b := must[[]byte](t)(os.ReadFile(f.Path("events.jsonl")))
	ok(t, os.WriteFile(f.Path("events.jsonl"), bytes.Replace(b, []byte("load1"), []byte("load2"), 1), 0o600))
	ok(t, os.Mkdir(filepath.Join(root, "f bad name"), 0o700))
	var got []string
	for _, s := range must[[]run.Summary](t)(run.List(t.Context(), root, nil)) {
		got = append(got, s.ID+" "+s.Status+" "+s.Code)
		if (s.Problem != "") != (s.ID >= "d") {
			t.Errorf("%s has the problem %q", s.ID, s.Problem)
		}
	}
	want := []string{"a-parked parked ", "b-running running ", "c-dead interrupted ", "d-empty  " + run.CodeNotFound, "e-altered  record_altered", "f bad name  " + run.CodeIDInvalid}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestExportIsDeterministicAndRefusesWhatDoesNotVerify(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "x", nil)
	a.open("cli-preload")
	a.begin()
	a.turn(1)
	a.blob("application/octet-stream", strings.Repeat("large", 5000))
	ok(t, f.Project(t.Context()))
	var one, two bytes.Buffer
	ok(t, run.Export(t.Context(), f, &one, nil))
	ok(t, run.Export(t.Context(), f, &two, nil))
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two exports differ")
	}
	back := t.TempDir()
	z := must[*zip.Reader](t)(zip.NewReader(bytes.NewReader(one.Bytes()), int64(one.Len())))
	for _, e := range z.File {
		r := must[io.ReadCloser](t)(e.Open())
		path := filepath.Join(back, filepath.FromSlash(e.Name))
		ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
		ok(t, os.WriteFile(path, must[[]byte](t)(io.ReadAll(r)), 0o600))
	}
	copied := must[*run.Folder](t)(run.Look(back, "x", nil))
	defer copied.Close()
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), copied)); !rep.OK || rep.Head != must[record.Head](t)(f.Log().Head(t.Context())) {
		t.Errorf("the exported run: %+v", rep.Problems)
	} else if i := slices.IndexFunc(rep.Warnings, func(p run.Problem) bool { return p.Code == run.CodeArtifact }); i >= 0 {
		t.Errorf("the exported run: %+v", rep.Warnings[i])
	}
	b := must[[]byte](t)(os.ReadFile(f.Path(run.FilePolicyTrace)))
	ok(t, os.WriteFile(f.Path(run.FilePolicyTrace), bytes.Replace(b, []byte("warned"), []byte("denied"), 1), 0o600))
	wantCode(t, run.Export(t.Context(), f, io.Discard, nil), run.CodeUnverified, metier.Drift)
	var forced bytes.Buffer
	ok(t, run.Export(t.Context(), f, &forced, &run.ExportOptions{Unverified: true}))
}

func TestExportAt_KeepsTheFilesOfABrokenRecord(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "x", nil)
	a.open("cli-preload")
	a.begin()
	ok(t, f.Project(t.Context()))
	ok(t, f.Close())
	log := f.Path(run.FileLog)
	b := bytes.Replace(must[[]byte](t)(os.ReadFile(log)), []byte("run.begun"), []byte("run.begUn"), 1)
	ok(t, os.WriteFile(log, b, 0o600))
	_, err := run.ExportAt(t.Context(), root, "x", io.Discard, nil, nil)
	wantCode(t, err, run.CodeUnverified, metier.Drift)
	var out bytes.Buffer
	rep := must[run.VerifyReport](t)(run.ExportAt(t.Context(), root, "x", &out, nil, &run.ExportOptions{Unverified: true}))
	if rep.OK || len(rep.Problems) == 0 {
		t.Errorf("the report: %+v", rep)
	}
	z := must[*zip.Reader](t)(zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len())))
	for _, name := range []string{run.FileLog, run.FileReport} {
		got := must[[]byte](t)(fs.ReadFile(z, "x/"+name))
		if want := must[[]byte](t)(os.ReadFile(f.Path(name))); !bytes.Equal(got, want) {
			t.Errorf("%s in the archive differs from the file:\n%s", name, got)
		}
	}
	if verdict := string(must[[]byte](t)(fs.ReadFile(z, "x/verify.json"))); !strings.Contains(verdict, rep.Problems[0].Code) || !strings.Contains(verdict, `"ok": false`) {
		t.Errorf("verify.json does not list the problem:\n%s", verdict)
	}
}

func TestChildRunsAreVerifiedWithTheirParent(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "parent", nil)
	a.open("cli-preload")
	child, b := create(t, f.Children(), "kid", nil)
	b.open("subagent-inherit")
	head := must[record.Head](t)(child.Log().Head(t.Context()))
	ok(t, child.Close())
	a.add(event.ChildEnded{ID: "t1.c1", Run: "kid", Head: head})
	ok(t, f.Project(t.Context()))
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); !rep.OK || len(rep.Record.Children) != 1 {
		t.Errorf("%+v", rep)
	}
	// What is gone from a child's record is reported, as it is for its parent's.
	missing := false
	for _, w := range must[run.VerifyReport](t)(run.Verify(t.Context(), f)).Warnings {
		missing = missing || w.Code == run.CodeNoArtifact && w.On == "children/kid/transcript.json"
	}
	if !missing {
		t.Error("the child's artifacts were never written, and nothing says so")
	}
	log := must[[]byte](t)(os.ReadFile(child.Path("events.jsonl")))
	ok(t, os.WriteFile(child.Path("events.jsonl"), bytes.Replace(log, []byte("subagent-inherit"), []byte("model-tool\",\"x\":\""), 1), 0o600))
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); rep.OK {
		t.Error("a changed child verifies")
	}
}

func TestALogThatCannotBeOpenedIsStillVerified(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "bad", nil)
	a.open("cli-preload")
	ok(t, f.Close())
	b := must[[]byte](t)(os.ReadFile(f.Path("events.jsonl")))
	ok(t, os.WriteFile(f.Path("events.jsonl"), bytes.Replace(b, []byte("cfc_observe_read"), []byte("cfc_disabled_now"), 1), 0o600))
	_, err := run.Look(root, "bad", nil)
	wantCode(t, err, "record_altered", metier.Drift)
	rep := must[run.VerifyReport](t)(run.VerifyAt(t.Context(), root, "bad", nil))
	if rep.OK || len(rep.Problems) == 0 || rep.Problems[0].Code != "record_altered" || rep.Problems[0].Seq != 3 {
		t.Errorf("%+v", rep.Problems)
	}
}

func TestAnEmptyArtifactIsMissingAndWrittenAgain(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "cut", nil)
	a.open("cli-preload")
	ok(t, f.Project(t.Context()))
	name := "tool-outputs/load1-load_skill.json"
	ok(t, os.Truncate(f.Path(name), 0))
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); !rep.OK || rep.Artifacts[name] != "missing" {
		t.Errorf("%v %+v", rep.Artifacts[name], rep.Problems)
	}
	ok(t, f.Project(t.Context()))
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); rep.Artifacts[name] != "equal" {
		t.Errorf("%v", rep.Artifacts[name])
	}
}

func TestStateDirFollowsXDG(t *testing.T) {
	t.Parallel()
	abs := t.TempDir()
	env := func(v string) func(string) string {
		return func(k string) string {
			if k == "XDG_STATE_HOME" {
				return v
			}
			return ""
		}
	}
	if got, want := run.StateDir(env(abs), "/home/x"), filepath.Join(abs, "metier"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := run.StateDir(env("relative"), abs), filepath.Join(abs, ".local", "state", "metier"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := run.StateDir(env(""), ""); got != "" {
		t.Errorf("without a home: %s", got)
	}
}
