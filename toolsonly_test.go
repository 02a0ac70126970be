package metier_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"metier"
	"metier/event"
	"metier/model"
	"metier/record"
)

// served returns a session like that of an MCP server's client, with a record in files, in which
// many skills with long instructions are active.
func served(t testing.TB, skills int) (w *fixture, bytes func() int64) {
	files := map[string]string{}
	for i := range skills {
		name := fmt.Sprintf("skill-%03d", i)
		files["skills/"+name+"/SKILL.md"] = skillFile(name, strings.Repeat("Do one thing after the other.\n", 200))
		files["skills/"+name+"/a.md"] = fmt.Sprint("canary ", i)
	}
	w = newFixture(t, cfHarness, files)
	dir := t.TempDir()
	blobs, err := record.OpenBlobs(filepath.Join(dir, "blobs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	log, err := record.OpenFile(filepath.Join(dir, "events.jsonl"), &record.Options{Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close(); blobs.Close() })
	w.log, w.blobs = log, blobs
	w.config = func(c *metier.Config) { c.ToolsOnly = true }
	w.open()
	w.load(skills)
	return w, w.Recorded
}

// load loads all skills once.
func (w *fixture) load(skills int) {
	w.t.Helper()
	for i := range skills {
		w.works("load_skill", args{"name": fmt.Sprintf("skill-%03d", i)})
	}
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and weak pointers kept
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Clients make calls for days. Their record must not grow with the text of a skill each time that it
// is loaded, and the memory of the session must only grow by what finds an entry and its ID. Each entry
// lists the active skills. It is not parallel: other tests use the same heap.
func TestToolsOnlySession_GrowsLittleForEachCall(t *testing.T) {
	const skills, rounds = 30, 10
	w, bytes := served(t, skills)
	grow := func(rounds int) (calls, heap, recorded int64) {
		before, size := liveHeap(), bytes()
		for range rounds {
			w.load(skills)
			for i := range skills {
				w.works("read_skill_resource", args{"skill": fmt.Sprintf("skill-%03d", i), "path": "a.md"})
			}
		}
		return int64(2 * rounds * skills), liveHeap() - before, bytes() - size
	}
	grow(1)
	few, fewHeap, fewBytes := grow(rounds)
	many, manyHeap, manyBytes := grow(4 * rounds)
	t.Logf("%d calls: heap %+d, record %+d; %d calls: heap %+d, record %+d", few, fewHeap, fewBytes, many, manyHeap, manyBytes)
	if each := manyBytes / many; each > 26<<10 {
		t.Errorf("each call adds %d bytes to the record", each)
	}
	if each := manyHeap / many; each > 400 {
		t.Errorf("each call keeps %d bytes in memory", each)
	}
	runtime.KeepAlive(w.Session)
}

// A result that repeats is stored once, and the observations still name their calls.
func TestToolsOnlySession_StoresRepeatedResultsOnce(t *testing.T) {
	t.Parallel()
	w, _ := served(t, 1)
	for range 3 {
		w.works("load_skill", args{"name": "skill-000"})
	}
	var digests []string
	for _, e := range events[event.ToolResult](w) {
		digests = append(digests, e.Content.Digest)
	}
	if len(digests) != 4 || len(slices.Compact(digests)) != 1 {
		t.Errorf("%q", digests)
	}
	for _, id := range []string{"c2", "c5"} { // recorded, and new
		o, err := w.Call(t.Context(), metier.Call{ID: id, Tool: "load_skill", Args: json.RawMessage(`{"name":"skill-000"}`)})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range o.Parts() {
			if p.Call != id || p.Kind != model.PartResult || p.Tool != "load_skill" {
				t.Errorf("%s: %+v", id, p)
			}
		}
	}
}
