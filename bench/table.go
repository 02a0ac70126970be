package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const skillsText = "beside a floor and peers\n\nWritten by `make bench`; do not edit. Each figure is the median of fresh processes, rounds interleaved, page cache\nwarm. Times are of the work alone, without the start of the process, except under \"whole process\". CPU and memory are\nof the whole process. × is the time over that of the floor, the first row of each table.\n\n"

const growthText = "what more work costs\n\nWritten by `make bench`, and alone by `make bench-growth`; do not edit. Each figure is the median of fresh processes, in turns. × is the time over\nthat of the floor, the first row of each table, which is the same work, smaller. Everything goes through the engine, as in a program that embeds it.\nCPU and memory are of the whole process.\n\n"

// table is a part of the page: the machine, then one table for each piece of work.
func (b *bench) table(title, text string, list []entry) string {
	var t strings.Builder
	t.WriteString(title + text)
	fmt.Fprintf(&t, "Machine: %s.\n", machine())
	work := ""
	var floor time.Duration
	for _, e := range list {
		s := b.took[e]
		if head := e.title(); head != work {
			work, floor = head, 0
			fmt.Fprintf(&t, "\n## %s%s\n\n| what | cores | ms | range | × floor | budget | found | CPU ms | MB |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n", strings.ToUpper(head[:1]), head[1:])
		}
		if e.floor() {
			floor = middle(s.wall)
		}
		t.WriteString(row(e, s, floor))
	}
	return t.String()
}

// title is the head of the table an entry stands in.
func (e entry) title() string {
	if e.Skills == 0 || e.Sizes {
		return e.Work
	}
	return fmt.Sprintf("%s, %s skills", e.Work, thousands(e.Skills))
}

// floor reports whether the rows after it are compared with it.
func (e entry) floor() bool { return strings.HasPrefix(e.Name, "floor") }

func row(e entry, s *samples, floor time.Duration) string {
	mid := middle(s.wall)
	ratio, budget, found := "", "", thousands(s.last.Count)
	if !e.floor() && floor > 0 {
		ratio = fmt.Sprintf("%.2f", float64(mid)/float64(floor))
	}
	miss := func(text string, most float64) {
		if budget = text; ms(mid) > most {
			budget += " missed"
		}
	}
	switch {
	case e.Budget > 0:
		miss(fmt.Sprintf("%.1f", e.Budget), e.Budget*ms(floor))
	case e.Over > 0:
		miss(fmt.Sprintf("floor + %.2f ms", e.Over), ms(floor)+e.Over)
	case e.Most > 0:
		miss(fmt.Sprintf("%g", e.Most), e.Most)
	}
	if e.Program == "cli" {
		found = ""
	}
	if s.last.Error != "" {
		found = "gave up: " + cell(s.last.Error)
	}
	mb := float64(middle(s.rss)) / (1 << 20)
	memory := fmt.Sprintf("%.0f", mb)
	if e.MostMB > 0 {
		memory += fmt.Sprintf(" of %g", e.MostMB)
		if mb > e.MostMB {
			memory += " missed"
		}
	}
	return fmt.Sprintf("| %s | %d | %s | %s-%s | %s | %s | %s | %.0f | %s |\n", e.Name, e.Procs, short(mid), short(slices.Min(s.wall)), short(slices.Max(s.wall)),
		ratio, budget, found, ms(middle(s.cpu)), memory)
}

// cell is one short line that does not end the table's cell, without paths.
func cell(s string) string {
	s = regexp.MustCompile(`/\S*/`).ReplaceAllString(strings.ReplaceAll(s, "|", "/"), "")
	if s, _, _ = strings.Cut(s, "\n"); len(s) > 80 {
		s = s[:80] + "..."
	}
	return s
}

func middle[T int64 | time.Duration](v []T) T {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// short gives three digits.
func short(d time.Duration) string {
	switch v := ms(d); {
	case v < 1:
		return fmt.Sprintf("%.3f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// machine describes where it ran, as far as the system tells.
func machine() string {
	first := func(file, pattern string) string {
		b, _ := os.ReadFile(file) // absent elsewhere than on Linux
		if m := regexp.MustCompile(pattern).FindSubmatch(b); m != nil {
			return string(m[1])
		}
		return "unknown"
	}
	return fmt.Sprintf("%d cores of %s, %s kB of memory, %s %s, %s, load %s when done", runtime.NumCPU(), first("/proc/cpuinfo", `model name\s*: (.*)`),
		first("/proc/meminfo", `MemTotal:\s*(\d+)`), runtime.GOOS, first("/proc/version", `version (\S+)`), runtime.Version(), first("/proc/loadavg", `^(\S+)`))
}
