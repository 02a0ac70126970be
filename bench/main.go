package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"metier/bench/subject"
)

func main() {
	sizes := flag.String("sizes", "1000,10000,100000", "skills of the trees, separated by commas")
	rounds := flag.Int("rounds", 7, "runs of each subject on trees of at most 10,000 skills; 3 on larger ones")
	pairs := flag.Int("pairs", 200, "launches of each program in a sandbox")
	seconds := flag.Int("seconds", 30, "how long the server of the Model Context Protocol is under load, three times")
	tables := flag.String("tables", "skills,launch,mcp,growth", "parts of the page to measure; the others stay as they are in the file")
	only := flag.String("only", "", "only rows whose work or name holds this text")
	trees := flag.String("trees", "", "keep the trees in this folder and use them again")
	out := flag.String("o", "", "write the table to this file too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, plan{*sizes, *rounds, *pairs, *seconds, strings.Split(*tables, ","), *only, *trees, *out}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// plan is what the flags say.
type plan struct {
	sizes            string
	rounds, pairs    int
	seconds          int
	tables           []string
	only, trees, out string
}

// The parts of the page begin with these lines.
const (
	skillsTitle = "# What it costs, "
	launchTitle = "# What it costs to run "
	mcpTitle    = "# What it costs to serve "
	growthTitle = "# How cost grows: "
)

func run(ctx context.Context, p plan) error {
	var counts []int
	for _, s := range strings.Split(p.sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return fmt.Errorf("-sizes %q: give whole numbers", p.sizes)
		}
		counts = append(counts, n)
	}
	for _, t := range p.tables {
		if !slices.Contains([]string{"skills", "launch", "mcp", "growth"}, t) {
			return fmt.Errorf("-tables %q: skills, launch, mcp and growth, with commas", t)
		}
	}
	scratch, err := os.MkdirTemp("", "metier-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	b := &bench{ctx: ctx, bin: filepath.Join(scratch, "bin"), scratch: scratch, trees: p.trees, took: map[entry]*samples{}}
	if b.trees == "" {
		b.trees = filepath.Join(scratch, "trees")
	}
	if err := b.build(p.tables); err != nil {
		return err
	}
	var skills, launch, served, grown string
	if slices.Contains(p.tables, "launch") { // first: the machine is quiet yet
		if launch, err = b.launches(max(p.pairs, 1)); err != nil {
			return err
		}
		fmt.Print(launch)
	}
	if slices.Contains(p.tables, "mcp") {
		if served, err = b.served(counts[0], p.pairs, p.seconds); err != nil {
			return err
		}
		fmt.Print(served)
	}
	if slices.Contains(p.tables, "skills") {
		list := slices.DeleteFunc(entries(counts), func(e entry) bool {
			return !strings.Contains(e.Work+" "+e.Name, p.only) && !e.floor()
		})
		if err := b.measure(list, p.rounds); err != nil {
			return err
		}
		skills = b.table(skillsTitle, skillsText, list)
		fmt.Print(skills)
	}
	if slices.Contains(p.tables, "growth") {
		list := growth(slices.Max(counts) < 1_000)
		if err := b.measure(list, p.rounds); err != nil {
			return err
		}
		grown = b.table(growthTitle, growthText, list)
		fmt.Print(grown)
	}
	if p.out == "" {
		return nil
	}
	return write(p.out, skills, launch, served, grown)
}

// write puts the parts into a file; one that was not measured stays as it is.
func write(file, skills, launch, served, grown string) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	was := func(now, title string) string {
		if now != "" {
			return now
		}
		for _, part := range strings.SplitAfter("\n"+string(old), "\n# ")[1:] {
			part = "# " + strings.TrimSuffix(part, "\n# ")
			if strings.HasPrefix(part, title) {
				return strings.TrimRight(part, "\n") + "\n"
			}
		}
		return ""
	}
	parts := []string{was(skills, skillsTitle), was(launch, launchTitle), was(served, mcpTitle), was(grown, growthTitle)}
	return os.WriteFile(file, []byte(strings.Trim(strings.Join(parts, "\n"), "\n")+"\n"), 0o644)
}

// bench runs subjects and keeps what they took.
type bench struct {
	ctx                 context.Context
	bin, scratch, trees string
	took                map[entry]*samples
}

type samples struct {
	wall, cpu []time.Duration
	rss       []int64 // bytes
	last      subject.Result
}

// build compiles the subjects, and the command from the module above.
func (b *bench) build(tables []string) error {
	subjects := []string{"build", "-o", b.bin + string(filepath.Separator)}
	for _, t := range tables {
		subjects = append(subjects, map[string][]string{"launch": {"./subject/launch"}, "mcp": {"./subject/mcp"}, "skills": {"./subject/floor", "./subject/metier", "./subject/peers"}, "growth": {"./subject/metier"}}[t]...)
	}
	for _, args := range [][]string{
		subjects,
		{"-C", "..", "build", "-o", filepath.Join(b.bin, "cli"), "./cmd/metier"},
	} {
		c := exec.CommandContext(b.ctx, "go", args...)
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// tree returns the folder of a tree, planted at its first use.
func (b *bench) tree(kind string, n int) (string, error) {
	dir := filepath.Join(b.trees, fmt.Sprintf("%s-%d", kind, n))
	done := dir + ".done"
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	fmt.Fprintf(os.Stderr, "planting %d skills, %s tree\n", n, kind)
	grow := plantPlain
	if kind == "mix" {
		grow = plantMix
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := grow(dir, n); err != nil {
		return "", err
	}
	return dir, os.WriteFile(done, nil, 0o644)
}

// measure runs all entries in rounds, one after the other. The first round is
// not counted: it fills the page cache and the index.
func (b *bench) measure(list []entry, rounds int) error {
	for round := range rounds + 1 {
		for _, e := range list {
			if e.Skills > 10_000 && round > 3 || e.Rounds > 0 && round > e.Rounds {
				continue
			}
			fmt.Fprintf(os.Stderr, "\rround %d of %d: %-20s %-60.60s", round, rounds, e.Work, e.Name)
			if err := b.once(e, round > 0); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(os.Stderr)
	return nil
}

// once runs a subject in a process of its own.
func (b *bench) once(e entry, counted bool) error {
	dir := b.scratch
	if e.Tree != "" {
		var err error
		if dir, err = b.tree(e.Tree, e.Skills); err != nil {
			return err
		}
	}
	cache, err := filepath.Join(b.scratch, "index"), error(nil)
	if !e.Indexed {
		if cache, err = os.MkdirTemp(b.scratch, "no-index-"); err != nil {
			return err
		}
		defer os.RemoveAll(cache)
	}
	program, args := filepath.Join(b.bin, e.Program), []string{e.Case, dir}
	if e.Program == "cli" {
		program, args = filepath.Join(b.bin, "cli"), []string{e.Case}
		if e.Case != "version" {
			args = append(args, "--skills-root", dir)
		}
	}
	c := exec.CommandContext(b.ctx, program, args...)
	c.Dir = b.scratch
	c.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(e.Procs), "HOME="+b.scratch, "XDG_CACHE_HOME="+cache, "BENCH_INDEX="+cache)
	c.Stderr = os.Stderr
	if e.Program == "cli" {
		c.Stderr = nil
	}
	start := time.Now()
	got, err := c.Output()
	wall := time.Since(start)
	if err != nil {
		return fmt.Errorf("%s %s: %w", e.Program, strings.Join(args, " "), err)
	}
	s := b.took[e]
	if s == nil {
		s = &samples{}
		b.took[e] = s
	}
	s.last = subject.Result{Nanos: wall.Nanoseconds()}
	if e.Program != "cli" {
		if err := json.Unmarshal(got, &s.last); err != nil {
			return fmt.Errorf("%s %s printed %q: %w", e.Program, e.Case, got, err)
		}
	}
	if e.Figure != "" && s.last.Error == "" {
		s.last.Nanos = int64(s.last.Extra[e.Figure] * 1e6)
	}
	if counted {
		s.wall = append(s.wall, time.Duration(s.last.Nanos))
		s.cpu = append(s.cpu, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		s.rss = append(s.rss, peakMemory(c.ProcessState))
	}
	return nil
}
