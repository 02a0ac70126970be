// Peers are other loaders of skills, called by their own packages as their
// documentation says.
package main

import (
	"context"
	"fmt"
	"os"

	eino "github.com/cloudwego/eino/adk/middlewares/skill"
	ollama "github.com/ollama/ollama/agent"
	adk "google.golang.org/adk/v2/tool/skilltoolset/skill"
	trpc "trpc.group/trpc-go/trpc-agent-go/skill"

	"metier/bench/subject"
)

func main() {
	subject.Main(map[string]subject.Case{"adk": listADK, "eino": listEino, "ollama": listOllama, "trpc": listTRPC})
}

func listADK(dir string, _ func()) (int, map[string]float64, error) {
	list, err := adk.NewFileSystemSource(os.DirFS(dir)).ListFrontmatters(context.Background())
	return len(list), nil, err
}

func listEino(dir string, _ func()) (int, map[string]float64, error) {
	b, err := eino.NewLocalBackend(&eino.LocalBackendConfig{BaseDir: dir})
	if err != nil {
		return 0, nil, err
	}
	list, err := b.List(context.Background())
	return len(list), nil, err
}

func listOllama(dir string, _ func()) (int, map[string]float64, error) {
	c, err := ollama.DiscoverSkills(dir)
	if err != nil {
		return 0, nil, err
	}
	if bad := c.Diagnostics(); len(c.List()) == 0 && len(bad) > 0 {
		return 0, nil, fmt.Errorf("%d skills refused, first: %w", len(bad), bad[0])
	}
	return len(c.List()), nil, nil
}

func listTRPC(dir string, _ func()) (int, map[string]float64, error) {
	r, err := trpc.NewFSRepository(dir)
	if err != nil {
		return 0, nil, err
	}
	return len(r.Summaries()), nil, nil
}
