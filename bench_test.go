package metier_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"metier"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
)

// BenchmarkCall is a call of a tool that does nothing, the record in files.
func BenchmarkCall(b *testing.B) {
	for _, effect := range []policy.Effect{policy.Read, policy.Write} {
		b.Run(string(effect), func(b *testing.B) {
			noop := made{name: "noop", effect: effect, act: func(context.Context, *metier.ToolContext) (metier.Result, error) { return mediated("ok"), nil }}
			w := withTools(b, guide(), noop).onFile().open()
			for b.Loop() {
				w.works("noop", args{})
			}
		})
	}
}

// BenchmarkUse compares reading a skill's file, and activating a skill, with
// open + read + hash of the same file.
func BenchmarkUse(b *testing.B) {
	const n = 16
	files := map[string]string{}
	body := strings.Repeat("A line of ordinary instructions, <b>bold</b> here and there.\n", 80)
	for i := range n {
		files[fmt.Sprintf("skills/s%04d/SKILL.md", i)] = skillFile(fmt.Sprintf("s%04d", i), body)
	}
	b.Run("floor", func(b *testing.B) {
		w := newFixture(b, settings.DefaultProfile, files)
		for b.Loop() {
			raw, err := os.ReadFile(w.at("skills/s0000/SKILL.md"))
			if err != nil {
				b.Fatal(err)
			}
			digest.Bytes(raw)
		}
	})
	b.Run("read", func(b *testing.B) {
		w := opened(b, settings.DefaultProfile, files)
		w.activate("s0000")
		for b.Loop() {
			w.works(resourceCall, args{"skill": "s0000", "path": "SKILL.md"})
		}
	})
	b.Run("activate", func(b *testing.B) {
		w := opened(b, settings.DefaultProfile, files)
		for i := 0; b.Loop(); i++ {
			if i == n {
				b.StopTimer()
				w = opened(b, settings.DefaultProfile, files)
				i = 0
				b.StartTimer()
			}
			w.works("load_skill", args{"name": fmt.Sprintf("s%04d", i)})
		}
	})
}

// BenchmarkTenThousand is what a session with 10,000 skills costs.
func BenchmarkTenThousand(b *testing.B) {
	files := map[string]string{}
	for i := range 10_000 {
		files[fmt.Sprintf("skills/s%05d/SKILL.md", i)] = skillFile(fmt.Sprintf("s%05d", i), "x\n")
	}
	w := opened(b, settings.DefaultProfile, files)
	view := metier.View{Paths: settings.PathsSandbox, Workspace: w.dir}
	snap := w.Snapshot()
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			w.session()
		}
	})
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			if _, err := snap.Find("skills:s09999"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("locate", func(b *testing.B) {
		for b.Loop() {
			if _, _, ok := view.Locate(snap, "/workspace/skills/s09999/a/b.md"); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("offer", func(b *testing.B) {
		for b.Loop() {
			w.Session.Offer(b.Context())
		}
	})
	b.Run("call", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := w.Call(b.Context(), metier.Call{ID: fmt.Sprint("b", i), Tool: "load_skill", Args: json.RawMessage(`{"name":"none"}`)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
