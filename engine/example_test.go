package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/engine"
	"metier/model"
	"metier/model/scripted"
	"metier/policy"
	"metier/sandbox"
	"metier/source/embedded"
)

// An agent with its own tool. A real program names a model, such as
// anthropic:claude-sonnet-5. This one replays recorded turns.
func Example() {
	ctx := context.Background()
	weather, err := metier.FuncTool("weather", "Forecast the weather of a city.", policy.Read,
		func(_ context.Context, in struct {
			City string `json:"city" jsonschema:"the city to forecast"`
		}) (string, error) {
			return "It rains in " + in.City + ".", nil
		})
	if err != nil {
		log.Fatal(err)
	}
	a, err := engine.NewAgent(ctx, engine.AgentOptions{Client: replay(`
turns:
  - calls: [{tool: weather, args: {city: Oslo}}]
  - say: "{{ result \"weather\" 1 }} Take an umbrella."
  - say: Yes, a large one.
`), Tools: []metier.Tool{weather}, Workspace: temp(), Environ: []string{"HOME=" + temp()}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	for _, question := range []string{"Will it rain in Oslo?", "Is an umbrella enough?"} {
		answer, err := a.Ask(ctx, question)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer)
	}
	// Output:
	// It rains in Oslo. Take an umbrella.
	// Yes, a large one.
}

// Find skills like `metier list`, and explain why one is omitted.
func ExampleEngine_Discover() {
	ws := temp()
	file(filepath.Join(ws, ".agents", "skills", "umbrella", "SKILL.md"), "---\nname: umbrella\ndescription: Say when to take an umbrella. Use when it rains.\n---\nTake one.\n")
	file(filepath.Join(ws, ".agents", "skills", "broken", "SKILL.md"), "---\nname: [\n---\n")
	e := engine.New(config.NewEnv([]string{"HOME=" + temp()}, ws), engine.Options{})
	found, err := e.Discover(context.Background(), engine.Request{Roots: []string{".agents/skills"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = found.Close() }()
	for _, sk := range found.Snapshot.All() {
		fmt.Println(sk.Name, sk.State)
	}
	// Output:
	// broken refused
	// umbrella loaded
}

// Print text as the model generates it.
func ExampleNewAgent_streaming() {
	ctx := context.Background()
	a, err := engine.NewAgent(ctx, engine.AgentOptions{Client: replay("turns: [{say: Good morning.}]"), Workspace: temp(), Environ: []string{"HOME=" + temp()},
		Progress: func(p agent.Progress) {
			if p.Kind == agent.TextDelta {
				fmt.Print(p.Text)
			}
		}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	if _, err := a.Ask(ctx, "Hello."); err != nil {
		log.Fatal(err)
	}
	// Output: Good morning.
}

// Let a user answer the approval questions of the policy.
func ExampleNewAgent_approvals() {
	ctx := context.Background()
	outside := temp()
	file(filepath.Join(outside, "notes.txt"), "Buy milk.\n")
	a, err := engine.NewAgent(ctx, engine.AgentOptions{Workspace: temp(), Environ: []string{"HOME=" + temp()}, Client: replay(`
turns:
  - calls: [{tool: read_file, args: {path: "` + outside + `/notes.txt"}}]
  - say: "The notes say: {{ result \"read_file\" 1 }}"
`), Approve: func(_ context.Context, q engine.Question) (policy.Answer, error) {
		asked, _ := policy.SplitQuestion(q.Text)
		fmt.Println(strings.ReplaceAll(asked, outside, "/notes"))
		return policy.Answer{Question: q.ID, Allow: false, Scope: policy.ScopeOnce, By: "ada"}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	o, err := a.Run(ctx, "What is in my notes?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Status, o.Denied[0].Tool, o.Denied[0].Code)
	// Output:
	// read outside the workspace: /notes/notes.txt
	// done read_file refused
}

// Continue a run in another process with a further message.
func ExampleEngine_Resume() {
	ctx := context.Background()
	env, records := config.NewEnv([]string{"HOME=" + temp()}, temp()), temp()
	model := replay("turns: [{say: First.}, {say: Second.}]")

	e := engine.New(env, engine.Options{})
	p, err := e.Plan(ctx, engine.Request{Prompt: "Begin.", Artifacts: records, Custom: engine.Custom{Model: model}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := e.Start(ctx, p, "run-1", engine.Hooks{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(drive(ctx, r))

	e = engine.New(env, engine.Options{}) // as in another process
	r, err = e.Resume(ctx, records, "run-1", engine.ResumeOptions{Prompt: "And then?", Custom: engine.Custom{Model: model}}, engine.Hooks{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(drive(ctx, r))
	// Output:
	// First.
	// Second.
}

func drive(ctx context.Context, r *engine.Run) string {
	o, err := r.Drive(ctx)
	if err = errors.Join(err, r.Close(ctx)); err != nil {
		log.Fatal(err)
	}
	return o.Answer
}

// Embed skills in the program, from any fs.FS such as an embed.FS.
func ExampleCustom_source() {
	ctx := context.Background()
	skills := fstest.MapFS{"umbrella/SKILL.md": {Data: []byte("---\nname: umbrella\ndescription: Say when to take an umbrella.\n---\nTake one.\n")}}
	e := engine.New(config.NewEnv([]string{"HOME=" + temp()}, temp()), engine.Options{})
	found, err := e.Discover(ctx, engine.Request{Profile: "cf-harness", Custom: engine.Custom{Mounts: []metier.Mount{{Label: "program", Tier: policy.Builtin, Source: embedded.New(skills)}}}})
	if err != nil {
		log.Fatal(err)
	}
	sk, err := found.Snapshot.Find("umbrella")
	fmt.Println(sk.ID, sk.Tier, err)
	// Output: program:umbrella builtin <nil>
}

// shout is a custom model: it answers in capitals.
type shout struct{}

func (shout) Stream(_ context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		text := strings.ToUpper(r.Messages[len(r.Messages)-1].Text())
		if !yield(model.Chunk{Kind: model.ChunkText, Text: text}, nil) {
			return
		}
		yield(model.Chunk{Kind: model.ChunkDone, Stop: model.StopEnd, Message: &model.Message{Role: model.RoleAssistant, Parts: []model.Part{model.Text(text)}}}, nil)
	}
}

// A custom model needs one method.
func ExampleNewAgent_model() {
	ctx := context.Background()
	a, err := engine.NewAgent(ctx, engine.AgentOptions{Client: shout{}, Workspace: temp(), Environ: []string{"HOME=" + temp()}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	fmt.Println(a.Ask(ctx, "Good morning."))
	// Output: GOOD MORNING. <nil>
}

// remote stands for a custom sandbox, such as a service that runs jobs in virtual machines.
type remote struct{}

func (remote) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Backend: "remote", Available: true, Level: sandbox.L3, Visible: []string{"/bin", "/usr"}}
}

func (remote) Run(_ context.Context, j sandbox.Job) (sandbox.Result, error) {
	return sandbox.Result{Stdout: []byte("ran " + j.Argv[len(j.Argv)-1]), Backend: "remote", Level: sandbox.L3}, nil
}

func (remote) Close() error { return nil }

// A custom sandbox runs scripts and commands.
func ExampleCustom_sandbox() {
	ctx := context.Background()
	e := engine.New(config.NewEnv([]string{"HOME=" + temp()}, temp()), engine.Options{})
	p, err := e.Plan(ctx, engine.Request{Prompt: "Count.", Batch: true, Tools: []string{"bash"}, Custom: engine.Custom{Sandbox: remote{}, Model: replay(`
turns:
  - calls: [{tool: bash, args: {command: wc -l notes.txt}}]
  - say: "{{ result \"bash\" 1 }}"
`)}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := e.Start(ctx, p, e.RunID(), engine.Hooks{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	o, err := r.Drive(ctx)
	fmt.Println(o.Answer, err)
	// Output:
	// Exit code 0.
	// <program_output stream="stdout">
	// ran wc -l notes.txt
	// </program_output>
	//  <nil>
}

// replay is a model that replays recorded turns.
func replay(turns string) model.Model {
	m, err := scripted.New([]byte(turns))
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// TestMain removes the folders of the examples, which have no t.TempDir.
func TestMain(m *testing.M) {
	base, err := os.MkdirTemp("", "examples-")
	if err != nil {
		log.Fatal(err)
	}
	examples, err = filepath.EvalSymlinks(base)
	if err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := os.RemoveAll(examples); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// examples is the folder that contains the folders of all examples.
var examples string

// temp is a new folder.
func temp() string {
	dir, err := os.MkdirTemp(examples, "")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

func file(path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
}
