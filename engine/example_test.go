package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"metier"
	"metier/engine"
	"metier/model"
	"metier/model/scripted"
	"metier/policy"
)

// An agent with a tool of its own. A real program names a model, such as
// anthropic:claude-sonnet-5, where this one replays recorded turns.
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

// replay is a model that replays recorded turns.
func replay(turns string) model.Model {
	m, err := scripted.New([]byte(turns), nil)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// temp is a new folder.
func temp() string {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		log.Fatal(err)
	}
	return dir
}
