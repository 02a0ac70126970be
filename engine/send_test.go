package engine_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/event"
	"metier/run"
)

// A message to a finished run is checked against the current skills, like a resume with a message.
func TestRun_SendAfterResumeChecksDrift(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	skill, records := filepath.Join(dir, "skills", "count", "SKILL.md"), filepath.Join(dir, "records")
	write(t, skill, "---\nname: count\ndescription: Count. Use when asked.\n---\nCount.\n")
	write(t, filepath.Join(dir, "ws", "own.txt"), "own\n")
	e := engine.New(config.NewEnv([]string{"HOME=" + filepath.Join(dir, "home")}, filepath.Join(dir, "ws")), engine.Options{})
	m := replay("turns: [{calls: [{tool: load_skill, args: {name: count}}]}, {say: One.}, {say: Two.}]")
	p, err := e.Plan(t.Context(), engine.Request{Prompt: "Count.", Roots: []string{filepath.Join(dir, "skills")}, Artifacts: records, Batch: true, Custom: engine.Custom{Model: m}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Drive(t.Context()); err != nil || o.Answer != "One." {
		t.Fatalf("Drive: %q, %v", o.Answer, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, skill, "---\nname: count\ndescription: Count. Use when asked.\n---\nCount twice.\n")
	for _, test := range []struct{ choice, want string }{{"fail", "skill_drifted"}, {"reload", ""}} {
		choice, want := test.choice, test.want
		r, err := e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Custom: engine.Custom{Model: m}, OnDrift: choice}, engine.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Send(t.Context(), "And now?"); (err == nil) != (want == "") || err != nil && metier.CodeOf(err) != want {
			t.Errorf("%s: Send: %v, want code %q", choice, err, want)
		}
		if want == "" {
			if o, err := r.Drive(t.Context()); err != nil || o.Answer != "Two." {
				t.Errorf("%s: Drive: %q, %v", choice, o.Answer, err)
			}
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A message sent before the run starts follows the task.
func TestRun_SendBeforeDriveKeepsOrder(t *testing.T) {
	t.Parallel()
	ws, records := t.TempDir(), t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, ws), engine.Options{})
	p, err := e.Plan(t.Context(), engine.Request{Prompt: "First.", Artifacts: records, Batch: true, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]")}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Send(t.Context(), "Second."); err != nil {
		t.Fatal(err)
	}
	if o, err := r.Drive(t.Context()); err != nil || o.Answer != "Done." {
		t.Errorf("Drive: %q, %v", o.Answer, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var said []string
	for ev, err := range e.Follow(t.Context(), records, r.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if s, is := ev.Event.(event.Input); is {
			said = append(said, s.ID)
		}
	}
	if diff := cmp.Diff([]string{"prompt", "message-2"}, said); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// A conversation that is still open shows the end of each answer.
func TestFollow_YieldsEndOfOpenConversation(t *testing.T) {
	t.Parallel()
	ws, records := t.TempDir(), t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	polls, now := 0, make(chan time.Time)
	close(now)
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, ws), engine.Options{After: func(time.Duration) <-chan time.Time {
		if polls++; polls > 3 {
			stop()
		}
		return now
	}})
	p, err := e.Plan(t.Context(), engine.Request{Prompt: "First.", Artifacts: records, Batch: true, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]")}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := ""
	for ev, err := range e.Follow(ctx, records, r.ID(), 0) {
		if err == nil {
			last = ev.Type
		}
	}
	if diff := cmp.Diff("run.ended", last); diff != "" {
		t.Errorf("last event (-want +got):\n%s", diff)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A record whose end was cut off is not a run under way.
func TestFollow_ReportsCutRecords(t *testing.T) {
	t.Parallel()
	records := t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	r := finished(t, e, engine.Request{Prompt: "Go.", Artifacts: records, Batch: true, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]")}})
	log := filepath.Join(r.Dir(), run.FileLog)
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if err := os.WriteFile(log, bytes.Join(lines[:len(lines)-3], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range e.Follow(t.Context(), records, r.ID(), 0) {
		last = err
	}
	if diff := cmp.Diff("heads_mismatch", metier.CodeOf(last)); diff != "" {
		t.Errorf("code of %v (-want +got):\n%s", last, diff)
	}
}

// A message cannot replace an answer: while a question is open, it is rejected, and the call keeps
// its decision.
func TestRun_SendWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	records := filepath.Join(dir, "records")
	write(t, filepath.Join(dir, "ws", "own.txt"), "own\n")
	write(t, filepath.Join(dir, "policy.yaml"), "version: 1\nrules: [{ask: read_file}]\n")
	e := engine.New(config.NewEnv([]string{"HOME=" + filepath.Join(dir, "home")}, filepath.Join(dir, "ws")), engine.Options{})
	m := engine.Custom{Model: replay("turns: [{calls: [{tool: read_file, args: {path: own.txt}}]}, {say: Done.}, {say: Again.}]")}
	p, err := e.Plan(t.Context(), engine.Request{Prompt: "Read it.", Artifacts: records, Park: true, Policies: []string{filepath.Join(dir, "policy.yaml")}, Custom: m})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Drive(t.Context()); err != nil || o.Status != "parked" {
		t.Fatalf("Drive: %q, %v", o.Status, err)
	}
	if diff := cmp.Diff("run_parked", metier.CodeOf(r.Send(t.Context(), "Never mind."))); diff != "" {
		t.Errorf("Send to a waiting run (-want +got):\n%s", diff)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Custom: m, Prompt: "Never mind."}, engine.Hooks{})
	if diff := cmp.Diff("run_parked", metier.CodeOf(err)); diff != "" {
		t.Errorf("Resume with a message (-want +got):\n%s", diff)
	}
	if _, ans, err := e.Answer(t.Context(), records, r.ID(), engine.AnswerRequest{Allow: true}); err != nil || ans.Scope != "once" {
		t.Fatalf("Answer: scope %q, %v", ans.Scope, err)
	}
	r, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Custom: m}, engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Drive(t.Context()); err != nil || o.Answer != "Done." {
		t.Fatalf("Drive after the answer: %q, %v", o.Answer, err)
	}
	if err := r.Send(t.Context(), "Once more."); err != nil {
		t.Fatal(err)
	}
	if o, err := r.Drive(t.Context()); err != nil || o.Answer != "Again." {
		t.Errorf("Drive after the message: %q, %v", o.Answer, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A second Close does nothing, so a deferred one does not harm a record that can still be
// continued. Other calls after Close fail with an error that says so.
func TestRun_CloseTwiceKeepsTheRecord(t *testing.T) {
	t.Parallel()
	ws, records := t.TempDir(), t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, ws), engine.Options{})
	m := engine.Custom{Model: replay("turns: [{say: One.}, {say: Two.}, {say: Three.}]")}
	p, err := e.Plan(t.Context(), engine.Request{Prompt: "First.", Artifacts: records, Batch: true, Custom: m})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Send(t.Context(), "Second."); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	_, err = r.Drive(t.Context())
	if diff := cmp.Diff("run_closed", metier.CodeOf(err)); diff != "" {
		t.Errorf("Drive (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("run_closed", metier.CodeOf(r.Send(t.Context(), "Third."))); diff != "" {
		t.Errorf("Send (-want +got):\n%s", diff)
	}
	r, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Prompt: "Third.", Custom: m}, engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Drive(t.Context()); err != nil || o.Answer != "Three." {
		t.Errorf("Drive: %q, %v", o.Answer, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Plan reports invalid requests.
func TestPlan_ChecksSchemaAndProfile(t *testing.T) {
	t.Parallel()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	m := engine.Custom{Model: replay("turns: [{say: One.}]")}
	for want, q := range map[string]engine.Request{
		"schema_invalid":  {Prompt: "Go.", Output: []byte("{"), Custom: m},
		"profile_unknown": {Prompt: "Go.", Profile: "none-such", Custom: m},
	} {
		_, err := e.Plan(t.Context(), q)
		if diff := cmp.Diff(want, metier.CodeOf(err)); diff != "" {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	}
}
