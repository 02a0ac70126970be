package run_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/digest"
	"metier/record"
	"metier/registry"
	"metier/run"
)

// problems returns code, file and detail of what Verify found.
func problems(t *testing.T, f *run.Folder) (out []string) {
	t.Helper()
	for _, p := range must[run.VerifyReport](t)(run.Verify(t.Context(), f)).Problems {
		out = append(out, p.Code+" "+p.On+" "+p.Detail)
	}
	return out
}

// holding reports whether one of the texts contains all words.
func holding(texts []string, words ...string) bool {
	for _, text := range texts {
		all := true
		for _, w := range words {
			all = all && strings.Contains(text, w)
		}
		if all {
			return true
		}
	}
	return false
}

// req
func TestVerify_NamesTheAlteredFieldOfAnArtifact(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, old, now, field string }{
		{run.FileRegistry, `"tier": "project"`, `"tier": "builtin"`, `roots[0].tier is "builtin", the log says "project"`},
		{run.FileActivations, `"digestChanged": false`, `"digestChanged": true`, "activations[0].digestChanged is true, the log says false"},
		{run.FileReads, `"digestMatchesRegistry": true`, `"digestMatchesRegistry": false`, "reads[0].digestMatchesRegistry is false, the log says true"},
		{run.FileScripts, `"executions": []`, `"executions": [{}]`, "[0] is {}, the log says null"},
		{run.FilePolicySnapshot, `"alpha:scripts/count.ts"`, `"alpha:scripts/other.ts"`, `grants.scripts[0] is "alpha:scripts/other.ts", the log says "alpha:scripts/count.ts"`},
		{run.FileState, `"status": "open"`, `"status": "done"`, `status is "done", the log says "open"`},
		{run.FileTranscript, "{\n", "{  \n", "only spaces"},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			f, a := create(t, t.TempDir(), "altered", nil)
			work(t, f, skillsFolder(t), a.now, counter("id"))
			ok(t, f.Project(t.Context()))
			b := string(must[[]byte](t)(os.ReadFile(f.Path(c.file))))
			if !strings.Contains(b, c.old) {
				t.Fatalf("%s does not hold %s:\n%s", c.file, c.old, b)
			}
			ok(t, os.WriteFile(f.Path(c.file), []byte(strings.Replace(b, c.old, c.now, 1)), 0o600))
			if got := problems(t, f); !holding(got, run.CodeArtifact+" "+c.file, c.field) {
				t.Errorf("problems: %q", got)
			}
		})
	}
}

// A log that was completely rewritten has a valid chain and matching artifacts. If its entries
// contradict each other, verify reports it.
//
// req
func TestVerify_FindsDisagreementInARewrittenLog(t *testing.T) {
	t.Parallel()
	other := digest.Bytes([]byte("other"))
	for name, c := range map[string]struct {
		kind string
		set  map[string]any
		file string
		says []string
	}{
		"digest of the index":       {"skill.resource_read", map[string]any{"registryDigest": other, "observedDigest": other}, run.FileReads, []string{"].registryDigest is " + other, run.FileRegistry + " has sha256:"}},
		"size of the index":         {"skill.resource_read", map[string]any{"registrySizeBytes": 99}, run.FileReads, []string{"].registrySizeBytes is 99"}},
		"match of another digest":   {"skill.resource_read", map[string]any{"observedDigest": other}, run.FileReads, []string{"].digestMatchesRegistry is true", "observedDigest " + other}},
		"mismatch of one digest":    {"skill.resource_read", map[string]any{"digestMatchesRegistry": false}, run.FileReads, []string{"].digestMatchesRegistry is false"}},
		"file that was not indexed": {"skill.resource_read", map[string]any{"path": "references/late.md"}, run.FileReads, []string{"does not have the file references/late.md"}},
		"late file that is indexed": {"skill.resource_read", map[string]any{"late": true}, run.FileReads, []string{"].late is true"}},
		"skill that was not listed": {"skill.activated", map[string]any{"skillId": "skills:added"}, run.FileActivations, []string{"].skillId is skills:added"}},
		"changed instructions":      {"skill.activated", map[string]any{"hash": other}, run.FileActivations, []string{"].digest is " + other, "digestChanged is false"}},
		"changed tree":              {"skill.activated", map[string]any{"tree": other}, run.FileActivations, []string{"].tree is " + other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := create(t, t.TempDir(), "honest", nil)
			work(t, f, skillsFolder(t), a.now, counter("id"))
			if got := problems(t, f); len(got) != 0 {
				t.Fatalf("before: %q", got)
			}
			forged := rewritten(t, f, c.kind, c.set)
			got := problems(t, forged)
			if !holding(got, append([]string{run.CodeDisagree + " " + c.file}, c.says...)...) {
				t.Errorf("problems: %q", got)
			}
		})
	}
}

// rewritten is a folder with the entries of another one. The first entry of a
// type has other values, the chain is recomputed, and artifacts are printed
// from it.
func rewritten(t *testing.T, f *run.Folder, kind string, set map[string]any) *run.Folder {
	t.Helper()
	var entries []record.Entry
	for en, err := range f.Log().Read(t.Context(), 1) {
		ok(t, err)
		if en.Type == kind && set != nil {
			var data map[string]any
			ok(t, json.Unmarshal(en.Data, &data))
			for k, v := range set {
				data[k] = v
			}
			en.Data, set = must[[]byte](t)(json.Marshal(data)), nil
		}
		entries = append(entries, en)
	}
	ok(t, f.Close())
	out, _ := create(t, t.TempDir(), "honest", nil)
	ok(t, out.Close())
	ok(t, os.CopyFS(filepath.Join(out.Path("blobs")+"-kept"), os.DirFS(f.Path("blobs"))))
	ok(t, os.RemoveAll(out.Path("blobs")))
	ok(t, os.Rename(out.Path("blobs")+"-kept", out.Path("blobs")))
	out = must[*run.Folder](t)(run.Open(filepath.Dir(out.Dir()), "honest", nil))
	t.Cleanup(func() { _ = out.Close() })
	must[record.Head](t)(out.Log().Append(t.Context(), must[record.Head](t)(out.Log().Head(t.Context())), entries...))
	ok(t, out.Project(t.Context()))
	if got := must[run.VerifyReport](t)(run.Verify(t.Context(), out)); !got.Record.OK() {
		t.Fatalf("the rewritten chain: %+v", got.Record)
	}
	return out
}

// Two artifacts of one run name the same digests and sizes.
//
// req: A-154
func TestArtifactsOfARunAgree(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "agree", nil)
	work(t, f, skillsFolder(t), a.now, counter("id"))
	ok(t, f.Project(t.Context()))
	type named struct{ Skill, Digest string }
	var want, got, loaded []named
	for _, x := range must[[]registry.Skill](t)(readJSON[run.Registry](t, f, run.FileRegistry).List()) {
		want = append(want, named{x.ID, x.Digest})
	}
	for _, x := range readJSON[run.Activations](t, f, run.FileActivations).Activations {
		got = append(got, named{x.SkillID, x.Digest})
	}
	for _, x := range readJSON[run.PolicySnapshot](t, f, run.FilePolicySnapshot).LoadedSkills {
		loaded = append(loaded, named{x.SkillID, x.Digest})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("activations (-registry +activations):\n%s", d)
	}
	if d := cmp.Diff(want, loaded); d != "" {
		t.Errorf("policy snapshot (-registry +snapshot):\n%s", d)
	}
}
