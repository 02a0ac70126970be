package cli_test

import (
	"archive/zip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client cannot record as much as it likes: when the record of its session is full, the session
// ends, the operator gets a notice, and other clients continue.
func TestMCP_EndsSessionWhenItsRecordIsFull(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const most = 16 // skills, each with its own text, because content that repeats counts once
	files := map[string]string{}
	name := func(n int) string { return "say-" + string(rune('a'+n)) }
	for n := range most {
		files["shelf/"+name(n)+"/SKILL.md"] = "---\nname: " + name(n) + "\ndescription: Say something.\n---\n" + strings.Repeat("Say it.\n", 3<<20/8)
	}
	p.write(files)
	w := p.servesHTTP()
	other := w.client("2025-11-25")
	other.call("load_skill", map[string]any{"name": "report"})
	c := w.client("2025-11-25")
	n, err := 0, error(nil)
	for ; n < most && err == nil; n++ {
		_, err = c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name(n)})
	}
	if n == most || err == nil || !strings.Contains(err.Error(), "record_full: ") {
		t.Errorf("after %d prompts of 3 MiB: %v", n, err)
	}
	for _, c := range []mcpClient{other, w.client("2025-11-25")} {
		if text, ok, _ := c.call("load_skill", map[string]any{"name": name(0)}); !ok {
			t.Error(text)
		}
	}
	if said := w.end(false); strings.Count(said, "record_full") != 1 {
		t.Errorf("the server said %q", said)
	}
	ids, states := p.recorded()
	if len(ids) != 3 {
		t.Errorf("records %q: %q", ids, states)
	}
	for _, id := range ids {
		if exit, out := p.metier("audit", "verify", id); exit != 0 || strings.Contains(out, "artifact_missing") {
			t.Errorf("%s: exit %d: %s", id, exit, out)
		}
		// The only artifact is run-state.json. Commands take the others from the log.
		written, err := filepath.Glob(filepath.Join(p.dir, ".metier/runs", id, "*.json"))
		if err != nil || len(written) != 1 || filepath.Base(written[0]) != "run-state.json" {
			t.Errorf("%s: %q, %v", id, written, err)
		}
		if exit, out := p.metier("runs", "show", id); exit != 0 || !strings.Contains(out, "ended") {
			t.Errorf("%s: exit %d: %s", id, exit, out)
		}
		if _, out := p.metier("run", "--resume", id); !strings.Contains(out, "[run_no_agent]") {
			t.Errorf("%s: %s", id, out)
		}
		archive := filepath.Join(t.TempDir(), "record.zip")
		if exit, out := p.metier("runs", "export", id, "-o", archive); exit != 0 {
			t.Errorf("%s: exit %d: %s", id, exit, out)
		}
		z, err := zip.OpenReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		if n := slices.IndexFunc(z.File, func(f *zip.File) bool { return f.Name == id+"/skill-registry.json" }); n < 0 {
			t.Errorf("%s: the archive has no artifacts", id)
		}
		_ = z.Close()
	}
}
