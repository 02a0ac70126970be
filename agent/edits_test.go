package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"metier/model/modeltest"
)

// Skills are scanned before each message: added, removed, and renamed ones show in the next system
// prompt of the same session.
//
// req: B-005
func TestEditsOfTheSkillsShowInTheNextMessage(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "keen", nil)
	w.skill("first", "Was there.", "Text.")
	for _, name := range []string{"3.txt", "2.txt", "1.txt"} {
		w.file(name, "x")
	}
	at := func(name string) string { return filepath.Join(w.ws, ".agents", "skills", name) }
	edits := []func() error{
		func() error { w.skill("second", "Was added.", "Text."); return nil },
		func() error { return os.RemoveAll(at("first")) },
		func() error { return os.Rename(at("second"), at("third")) },
	}
	w.server.Answer(func(*modeltest.Request) modeltest.Turn {
		if len(edits) == 0 {
			return modeltest.Turn{Text: "done"}
		}
		if err := edits[0](); err != nil {
			t.Error(err)
		}
		turn := call("read_file", fmt.Sprintf(`{"path":"%d.txt"}`, len(edits)))
		edits = edits[1:]
		return turn
	})
	w.run("Go.")
	prompts := w.system()
	if len(prompts) != 4 {
		t.Fatalf("%d system prompts", len(prompts))
	}
	for i, names := range [][]string{{"first"}, {"first", "second"}, {"second"}, {"third"}} {
		for _, name := range []string{"first", "second", "third"} {
			has, is := strings.Contains(prompts[i], "- "+name+": "), slices.Contains(names, name)
			if has != is {
				t.Errorf("prompt %d: %s is in it: %v, want %v", i+1, name, has, is)
			}
		}
	}
}
