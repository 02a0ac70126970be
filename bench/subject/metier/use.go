package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"metier"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// useRounds is how many skills are used, useEach how many in one session.
const useRounds, useEach = 500, 5

// use opens skills' files, and loads skills and reads a file of each through a
// session, beside opening, reading and hashing the same file by bare calls. The
// log is in memory: what syncs cost is measured with the run.
func use(dir string, begin func()) (int, map[string]float64, error) {
	set, err := defaults()
	if err != nil {
		return 0, nil, err
	}
	snap, err := build(dir)
	if err != nil {
		return 0, nil, err
	}
	u := user{set: set, snap: snap, dir: dir}
	var floors, files, loads, reads []time.Duration
	begin()
	for i, sk := range snap.Skills() {
		if i == useRounds {
			break
		}
		if i%useEach == 0 {
			if err := u.open(); err != nil {
				return i, nil, err
			}
		}
		took, err := bare(filepath.Join(sk.Dir(), "SKILL.md"))
		if err != nil {
			return i, nil, err
		}
		floors = append(floors, took)
		if took, err = confined(snap, sk); err != nil {
			return i, nil, err
		}
		files = append(files, took)
		if took, err = u.call(fmt.Sprint("l", i), set.Tools.Load, map[string]string{"name": sk.Name}); err != nil {
			return i, nil, err
		}
		loads = append(loads, took)
		if took, err = u.call(fmt.Sprint("r", i), set.Tools.Resource, map[string]string{"skill": sk.Name, "path": "references/guide.md"}); err != nil {
			return i, nil, err
		}
		reads = append(reads, took)
	}
	return len(loads), map[string]float64{"floor": median(floors), "file": median(files), "load": median(loads), "read": median(reads)}, nil
}

// user is a session in use.
type user struct {
	set  settings.Settings
	snap *metier.Snapshot
	dir  string
	s    *metier.Session
}

func (u *user) open() (err error) {
	mem := record.NewMemory()
	u.s, err = metier.Open(context.Background(), metier.Config{ID: "bench", Log: mem, Blobs: mem, Snapshot: u.snap, Settings: u.set, Batch: true,
		View:   metier.View{Paths: settings.PathsSandbox, Workspace: u.dir},
		Grants: policy.Grants{Mode: policy.Mode(u.set.Policy.Mode), Tools: u.set.Tools.Default, Narrow: policy.Narrowing(u.set.Policy.AllowedTools), Merge: policy.Merge(u.set.Policy.Merge)}})
	return err
}

func (u *user) call(id, tool string, args any) (time.Duration, error) {
	b, err := json.Marshal(args)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	o, err := u.s.Call(context.Background(), metier.Call{ID: id, Tool: tool, Args: b})
	took := time.Since(start)
	if err == nil && o.Code() != "" {
		err = fmt.Errorf("%s: %s", tool, o.Code())
	}
	return took, err
}

// bare opens, reads and hashes a file.
func bare(path string) (time.Duration, error) {
	start := time.Now()
	b, err := os.ReadFile(path)
	sha256.Sum256(b)
	return time.Since(start), err
}

// confined does the same through the snapshot: the skill's folder is found and
// held, and the file opened below it without following anything.
func confined(snap *metier.Snapshot, sk metier.Skill) (time.Duration, error) {
	start := time.Now()
	b, err := snap.Open(context.Background(), sk.ID)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	f, err := b.Open(context.Background(), sk.Head.FileName)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	sha256.Sum256(data)
	return time.Since(start), err
}

// median is in milliseconds.
func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds()) / 1e6
}
