package server_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shownBytes is how many bytes of a result each client shows its model. Shorter
// results are shown completely.
var shownBytes = map[string]int{"claude-code": 50_000, "codex-mcp-client": 12_000, "gemini-cli-mcp-client": 40_000, "opencode": 51_200, "unknown": 40_000}

const shownLines = 2000

// longText has long lines, short lines, quotes, and characters of several bytes.
func longText(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&b, "%d: \"Ein Reiher\" steht auf <b>einem</b> Bein – 鷺.\n", i)
		case 1:
			b.WriteString(strings.Repeat("é", 700) + "\n")
		default:
			b.WriteString(strings.Repeat("-\n", 300))
		}
	}
	return b.String()
}

var part = regexp.MustCompile(`(?s)\A(?:<[^\n]* offset="\d+"[^\n]*>\n)?(.*)Note: (?:these are|this is the last part of the skill,) bytes (\d+) to (\d+) of (\d+)\.(?: The (?:instructions|file) continues?: call \w+ with .* and offset (\d+) to read on\.)?\n\z`)

// pages reads a text to its end, as a model does that follows the notes.
func (c *client) pages(tool string, args map[string]any, most int) (whole string, n int) {
	c.t.Helper()
	for n = 1; n < 100; n++ {
		r := c.call(tool, args)
		text := said(r)
		if r.IsError {
			c.t.Fatal(text)
		}
		if len(text) >= most || strings.Count(text, "\n") >= shownLines {
			c.t.Errorf("%s: page %d has %d bytes in %d lines, of which the client shows %d bytes", tool, n, len(text), strings.Count(text, "\n"), most)
		}
		m := part.FindStringSubmatch(text)
		if m == nil {
			c.t.Fatalf("%s: page %d does not report which part it is: … %q", tool, n, text[max(0, len(text)-300):])
		}
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[3])
		if from != len(whole) || len(m[1]) < to-from {
			c.t.Fatalf("%s: page %d has bytes %d to %d after %d bytes", tool, n, from, to, len(whole))
		}
		whole += m[1][:to-from]
		if m[5] == "" {
			return whole, n
		}
		args["offset"], _ = strconv.Atoi(m[5])
	}
	c.t.Fatal("the pages do not end")
	return "", 0
}

func TestLoadSkill_LongInstructionsArriveWholeInPages(t *testing.T) {
	t.Parallel()
	body := longText(150_000)
	w := start(t, map[string]string{"long/SKILL.md": skill("long", "Long.", body), "short/SKILL.md": skill("short", "Short.", "Brief.")})
	for name, most := range shownBytes {
		c := w.named(name)
		got, n := c.pages("load_skill", map[string]any{"name": "long"}, most)
		if n < 3 {
			t.Errorf("%s: %d pages", name, n)
		}
		_, after, _ := strings.Cut(got, "\n"+body)
		if !strings.HasSuffix(strings.TrimSuffix(got, after), body) || !strings.HasSuffix(got, "</skill_context>\n") {
			t.Errorf("%s: the pages do not contain the instructions", name)
		}
		if text := said(c.call("load_skill", map[string]any{"name": "short"})); strings.Contains(text, "Note: ") || !strings.Contains(text, "Brief.") {
			t.Errorf("%s: a short skill is %q", name, text)
		}
		if r := c.call("load_skill", map[string]any{"name": "long", "offset": 10_000_000}); !r.IsError || !strings.Contains(said(r), "offset 10000000 is past the end") {
			t.Errorf("%s: an offset past the end: %q", name, said(r))
		}
	}
}

// The first page comes from the activation, the others from the skill that is active already.
func TestLoadSkill_PagesAreOfOneText(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"default", "agent-harness"} {
		body := longText(100_000)
		w := start(t, map[string]string{"long/SKILL.md": skill("long", "Long.", body)}, func(w *fixture) { w.profile = profile })
		c := w.stdio(nil)
		first, _ := c.pages("load_skill", map[string]any{"name": "long"}, shownBytes["unknown"])
		if !strings.Contains(first, body) {
			t.Errorf("%s: the pages do not contain the instructions", profile)
		}
		again, _ := c.pages("load_skill", map[string]any{"name": "long"}, shownBytes["unknown"])
		if d := cmp.Diff(first, again); d != "" {
			t.Errorf("%s: the pages of another load: -want +got:\n%.2000s", profile, d)
		}
	}
}

func TestReadSkillResource_LongFilesArriveWholeInPages(t *testing.T) {
	t.Parallel()
	file := longText(400_000)
	w := start(t, map[string]string{"long/SKILL.md": skill("long", "Long.", "Read it."), "long/references/all.md": file})
	for name, most := range shownBytes {
		for _, extra := range []map[string]any{{}, {"maxBytes": 256_000}} {
			args := map[string]any{"skill": "long", "path": "references/all.md"}
			for k, v := range extra {
				args[k] = v
			}
			c := w.named(name)
			var got strings.Builder
			for next, n := 0, 0; n == 0 || next > 0; n++ {
				args["offset"] = next
				r := c.call("read_skill_resource", args)
				text := said(r)
				if len(text) >= most || strings.Count(text, "\n") >= shownLines || n > 100 {
					t.Fatalf("%s: page %d has %d bytes in %d lines", name, n, len(text), strings.Count(text, "\n"))
				}
				_, content, _ := strings.Cut(text, ">\n")
				content, note, _ := strings.Cut(content, "</skill_resource>\n")
				got.WriteString(content)
				next = 0
				if _, after, more := strings.Cut(note, "and offset "); more {
					next, _ = strconv.Atoi(strings.Fields(after)[0])
				}
			}
			// A page that does not end at the end of a line gets a line end in its
			// element.
			if d := cmp.Diff(strings.ReplaceAll(file, "\n", ""), strings.ReplaceAll(got.String(), "\n", "")); d != "" {
				t.Errorf("%s %v: -want +got:\n%.2000s", name, extra, d)
			}
		}
	}
}

// In a profile whose replies are JSON objects each page is one.
func TestPages_AreWholeObjectsInTheEnvelope(t *testing.T) {
	t.Parallel()
	body := longText(100_000)
	w := start(t, map[string]string{"long/SKILL.md": skill("long", "Long.", body), "long/references/all.md": body},
		func(w *fixture) { w.profile = "project-skills" })
	c := w.named("claude-code")
	for title, args := range map[string]map[string]any{"Load a skill": {"name": "long"}, "Read a file of a skill": {"name": "long", "path": "references/all.md"}} {
		tools, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(tools.Tools, func(tl *mcp.Tool) bool { return tl.Title == title })
		if i < 0 {
			t.Fatalf("there is no tool %q", title)
		}
		var got strings.Builder
		for next, n := 0, 0; n == 0 || next > 0; n++ {
			args["offset"] = next
			text := said(c.call(tools.Tools[i].Name, args))
			var reply struct {
				OK         bool
				Content    string
				NextOffset int
			}
			if err := json.Unmarshal([]byte(text), &reply); err != nil || !reply.OK || len(text) >= shownBytes["claude-code"] {
				t.Fatalf("%s: page %d of %d bytes: %v: %.300s", title, n, len(text), err, text)
			}
			got.WriteString(reply.Content)
			next = reply.NextOffset
		}
		if d := cmp.Diff(strings.TrimSpace(body), strings.TrimSpace(got.String())); d != "" {
			t.Errorf("%s: the pages do not make the text; -want +got:\n%.2000s", title, d)
		}
	}
}
