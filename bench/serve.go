package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"metier/bench/subject"
)

const (
	// listBudget is the most times the bare library that a list of skills may take.
	listBudget = 1.3
	// growBudget is the most the memory of a server may grow from its fifth second under load to the end, in percent.
	growBudget  = 10
	loadClients = 64
)

// served measures the server of the Model Context Protocol and returns that part
// of the page.
func (b *bench) served(skills, rounds, seconds int) (string, error) {
	dir, err := b.tree("plain", skills)
	if err != nil {
		return "", err
	}
	before := load()
	var timings []subject.Timing
	if err := b.ask(&timings, "list", strconv.Itoa(rounds), dir); err != nil {
		return "", err
	}
	home, err := os.MkdirTemp(b.scratch, "served-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	var loads []subject.Load
	if err := b.ask(&loads, "load", filepath.Join(b.bin, "cli"), dir, home, strconv.Itoa(seconds), strconv.Itoa(loadClients)); err != nil {
		return "", err
	}
	var t strings.Builder
	fmt.Fprintf(&t, `%[1]sskills over the Model Context Protocol

Written by `+"`make bench`, and alone by `make bench-mcp`"+`; do not edit. %[2]s skills of four files each.

## skills/list, all pages, warm

Both servers are in one process with the same client, and take turns, %[3]d rounds. The library alone has the pages ready as values, and makes the
same bytes of them. × is the middle of the ratios, round by round.

| over | server | median ms | p95 ms | × | budget |
|---|---|--:|--:|--:|--:|
`, mcpTitle, thousands(skills), rounds)
	var first subject.Timing
	for _, x := range timings {
		ratio, budget := "", ""
		if x.Group != first.Group {
			first = x
		} else {
			mid := ratioOf(x, first)
			ratio, budget = fmt.Sprintf("%.2f", mid), fmt.Sprintf("%.1f", listBudget)
			if mid > listBudget {
				budget += " missed"
			}
		}
		v := slices.Sorted(slices.Values(x.Nanos))
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s |\n", x.Group, x.Name, short(time.Duration(v[len(v)/2])), short(time.Duration(v[(len(v)*95-1)/100])), ratio, budget)
	}
	fmt.Fprintf(&t, `
## %d clients for %d seconds

`+"`metier mcp --http`"+` in a process of its own. Each client lists skills (2 of 100 calls), gets one (20), reads a file (40) or loads a skill of three (38); every
digest and size of an entry, and the bytes of every file, are compared with the files themselves. Lost is a call without an answer, or with a
wrong one. The clock starts when each client made 20 calls. Memory is the resident one; it may grow by %d %%. A record has the log of what happened and its content.

| clients | calls | a second | lost | MB after 5 s | MB at the end | grew | records | their MB |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
`, loadClients, seconds, growBudget)
	for _, l := range loads {
		grew := ""
		if l.Early > 0 && seconds > 10 {
			by := 100 * float64(l.Late-l.Early) / float64(l.Early)
			grew = fmt.Sprintf("%+.0f %%", by)
			if by > growBudget {
				grew += " missed"
			}
		}
		if l.Lost > 0 {
			return "", fmt.Errorf("%s: %d calls lost, such as: %s", l.Name, l.Lost, l.Error)
		}
		fmt.Fprintf(&t, "| %s | %s | %.0f | %d | %d | %d | %s | %d | %d |\n", l.Name, thousands(int(l.Calls)), float64(l.Calls)/l.Seconds, l.Lost, l.Early>>20, l.Late>>20, grew, l.Folders, l.Disk>>20)
	}
	fmt.Fprintf(&t, "\nMachine: %s; load %s when begun.\n", machine(), before)
	return t.String(), nil
}

// ratioOf is the middle of the ratios, round by round.
func ratioOf(x, to subject.Timing) float64 {
	var pairs []float64
	for i := range min(len(x.Nanos), len(to.Nanos)) {
		pairs = append(pairs, float64(x.Nanos[i])/float64(to.Nanos[i]))
	}
	slices.Sort(pairs)
	return pairs[len(pairs)/2]
}

// ask runs the subject of this part and reads what it prints.
func (b *bench) ask(out any, args ...string) error {
	c := exec.CommandContext(b.ctx, filepath.Join(b.bin, "mcp"), args...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	text, err := c.Output()
	if err != nil {
		return fmt.Errorf("mcp %s: %w: %s", args[0], err, stderr.Bytes())
	}
	return json.Unmarshal(text, out)
}
