// Floor does what a loader cannot do without, and nothing else.
package main

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"metier/bench/subject"
)

func main() {
	subject.Main(map[string]subject.Case{"cold": cold, "walk": walk, "warm": warm, "full": full})
}

// cold reads the names of the root, then opens, reads 4 KB of and closes the
// SKILL.md of each folder, one after the other.
func cold(dir string, _ func()) (n int, _ map[string]float64, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0, nil, err
	}
	buf := make([]byte, 4096)
	for _, e := range list {
		f, err := os.Open(filepath.Join(dir, e.Name(), "SKILL.md"))
		if err != nil {
			continue
		}
		if _, err := f.Read(buf); err == nil {
			n++
		}
		f.Close()
	}
	return n, nil, nil
}

// walk is cold for a tree with groups: it reads the names of every folder that
// has no SKILL.md, one after the other.
func walk(dir string, _ func()) (n int, _ map[string]float64, err error) {
	buf := make([]byte, 4096)
	var visit func(string)
	visit = func(dir string) {
		if f, err := os.Open(filepath.Join(dir, "SKILL.md")); err == nil {
			f.Read(buf)
			f.Close()
			n++
			return
		}
		list, err := os.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range list {
			if e.IsDir() {
				visit(filepath.Join(dir, e.Name()))
			}
		}
	}
	visit(dir)
	return n, nil, nil
}

// warm reads the names of the root and looks at the SKILL.md of each folder.
func warm(dir string, _ func()) (n int, _ map[string]float64, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0, nil, err
	}
	for _, e := range list {
		if _, err := os.Lstat(filepath.Join(dir, e.Name(), "SKILL.md")); err == nil {
			n++
		}
	}
	return n, nil, nil
}

// full walks the tree, reads every file and takes its SHA-256, on as many
// goroutines as there are processors.
func full(dir string, _ func()) (int, map[string]float64, error) {
	folders := []string{dir}
	if list, err := os.ReadDir(dir); err == nil {
		folders = folders[:0]
		for _, e := range list {
			folders = append(folders, filepath.Join(dir, e.Name()))
		}
	}
	var next, count atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			buf, h := make([]byte, 64<<10), sha256.New()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(folders) {
					return
				}
				filepath.WalkDir(folders[i], func(p string, d fs.DirEntry, err error) error {
					if err != nil || !d.Type().IsRegular() {
						return nil
					}
					f, err := os.Open(p)
					if err != nil {
						return nil
					}
					defer f.Close()
					h.Reset()
					io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, buf)
					h.Sum(nil)
					count.Add(1)
					return nil
				})
			}
		})
	}
	wg.Wait()
	return int(count.Load()), nil, nil
}
