package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"metier"
	"metier/internal/confine/confinetest"
	"metier/internal/testenv"
	"metier/settings"
	"metier/source/sourcetest"
)

var onRaces = []attack{
	race(31, "file exchanged for a link", func(v *victim) (a, b string) {
		link(v.t, "../../../outside/secret", v.at("references/evil"))
		return v.at("references/secret"), v.at("references/evil")
	}),
	race(32, "folder exchanged for a linked one", func(v *victim) (a, b string) {
		link(v.t, "../../outside", v.at("evil"))
		return v.at("references"), v.at("evil")
	}),
	race(33, "skill exchanged for a linked one", func(v *victim) (a, b string) {
		evil := filepath.Join(v.dir, "outside", "guide")
		put(v.t, evil, "references/secret", canary)
		put(v.t, evil, "SKILL.md", sourcetest.Skill("guide", canary))
		link(v.t, evil, filepath.Join(v.dir, "evil"))
		return v.at("."), filepath.Join(v.dir, "evil")
	}),
	{33, "skill replaced after it was indexed", replaced},
	{35, "same size, same time", func(t *testing.T) {
		v := newVictim(t).open()
		v.gives("references/a.md", inside)
		path := v.at("references/a.md")
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		other := strings.Repeat("y", len(inside))
		put(t, v.at("."), "references/a.md", other)
		if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(path); err != nil || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
			t.Fatalf("%v, %v", after, err)
		}
		if text := v.gives("references/a.md", other); !strings.Contains(text, `changed="true"`) {
			t.Errorf("the model is not told: %s", text)
		}
		if e := v.last(); e.Matches == nil || *e.Matches || e.ObservedDigest != string(digestOf(other)) || e.RegistryDigest != string(digestOf(inside)) {
			t.Errorf("recorded as %+v", e)
		}
	}},
}

const (
	naiveLosses = 100 // a race continues until a naive reader has lost this often
	raceTime    = 60 * time.Second
	raceReads   = 200 // and ours was tried this often
)

var racing sync.Mutex

// race is an attacker who exchanges two names as fast as the system can. One of
// them, or a folder above it, is a link to the canary, and the file
// references/secret is read meanwhile. Our reader is never outside, and finds
// the file at least every second time, which is less often than the attacker
// leaves it there.
func race(n int, name string, names func(v *victim) (a, b string)) attack {
	return attack{n, name, func(t *testing.T) {
		racing.Lock() // each takes two processors
		defer racing.Unlock()
		v := victimIn(t, inMemory(t)) // where names are exchanged fastest
		put(t, v.at("."), "references/secret", inside)
		a, b := names(v)
		v.opt.Symlinks = settings.SymlinksIgnore
		readers := []*runner{{victim: v.open(), links: v.opt.Symlinks}}
		follows := *v
		follows.opt.Symlinks, follows.spy = settings.SymlinksInBounds, &spy{}
		readers = append(readers, &runner{victim: follows.open(), links: follows.opt.Symlinks})
		for _, r := range readers {
			r.snap = r.Snapshot()
		}
		stop := confinetest.Swap(t, a, b)
		defer stop()
		naive, tries := 0, 0
		begin := time.Now()
		for time.Since(begin) < raceTime && (naive < naiveLosses || readers[0].reads < raceReads) {
			for range 30 {
				tries++
				if got, err := confinetest.NaiveRead(filepath.Join(v.dir, "root"), "guide/references/secret"); err == nil && string(got) == canary {
					naive++
				}
			}
			for _, r := range readers {
				r.read(t)
			}
		}
		t.Logf("%d exchanges in %s; a naive reader was outside %d times of %d", stop(), time.Since(begin).Round(time.Millisecond), naive, tries)
		if naive < naiveLosses/10 {
			t.Errorf("that is no race")
		}
		for _, r := range readers {
			t.Logf("links %s: ours was outside 0 times of %d, and found the file %d times (%.0f %%)", r.links, r.reads, r.good, 100*float64(r.good)/float64(r.reads))
			if 2*r.good < r.reads {
				t.Errorf("links %s: less than half of the reads found the file", r.links)
			}
		}
	}}
}

// runner is a reader in a race.
type runner struct {
	*victim
	links       settings.Symlinks
	snap        *metier.Snapshot
	reads, good int
}

func (r *runner) read(t *testing.T) {
	t.Helper()
	if r.reads++; r.reads%500 == 0 {
		r.begin(r.snap) // a record has a size limit
	}
	o, err := r.Read(t.Context(), "guide", "references/secret", 0)
	switch {
	case err != nil:
		t.Fatal(err)
	case strings.Contains(o.Text()+string(o.Detail()), canary), r.spy.caught.Load():
		t.Fatalf("links %s: read %d is outside: %s", r.links, r.reads, o.Text())
	case o.Code() == "" && strings.Contains(o.Text(), inside):
		r.good++
	case o.Code() == "":
		t.Fatalf("links %s: read %d: %s", r.links, r.reads, o.Text())
	}
}

// replaced replaces a skill after it was indexed.
func replaced(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(v *victim)
		code string
	}{
		"nothing":       {func(*victim) {}, "skill_not_found resource_not_found"},
		"link":          {func(v *victim) { link(t, filepath.Join(v.dir, "outside"), v.at(".")) }, "resource_outside_root skill_not_found"},
		"file":          {func(v *victim) { put(t, filepath.Join(v.dir, "root"), "guide", "x") }, "skill_not_found resource_not_found"},
		"other skill":   {func(v *victim) { put(t, v.at("."), "SKILL.md", sourcetest.Skill("guide", "d")) }, "resource_not_found"},
		"link in it":    {func(v *victim) { link(t, filepath.Join(v.dir, "outside"), v.at("references")) }, "resource_outside_root skill_not_found"},
		"other content": {func(v *victim) { put(t, v.at("."), "SKILL.md", "x"); put(t, v.at("."), "references/a.md", "changed") }, ""},
	} {
		v := newVictim(t)
		put(t, v.dir, "outside/a.md", canary)
		put(t, v.dir, "outside/references/a.md", canary)
		v.open().gives("references/a.md", inside)
		if err := os.Rename(v.at("."), filepath.Join(v.dir, "gone")); err != nil {
			testenv.Skip(t, "a folder cannot be renamed here: "+err.Error())
		}
		c.put(v)
		o := v.reads("guide", "references/a.md")
		if c.code == "" {
			if r := (metier.Reading{}); true {
				decode(t, o.Detail(), &r)
				if r.Matches == nil || *r.Matches || !strings.Contains(o.Text(), `changed="true"`) {
					t.Errorf("%s: %s", name, o.Text())
				}
			}
			continue
		}
		if o.Code() == "" || !strings.Contains(c.code, o.Code()) {
			t.Errorf("%s: code %q, want %s: %s", name, o.Code(), c.code, o.Text())
		}
		if e := v.last(); e.Code != o.Code() || e.ObservedDigest != "" {
			t.Errorf("%s: recorded as %s", name, fmt.Sprintf("%+v", e))
		}
	}
}
