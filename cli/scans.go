package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"metier"
	"metier/engine"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/mcp/host"
	"metier/skillroots"
	"metier/source/local"
)

func (a *app) scans(ctx context.Context) *skillroots.Scans {
	dir, _ := a.env.IndexDir()
	if _, err := os.Lstat(dir); dir != "" && errors.Is(err, fs.ErrNotExist) {
		if err := a.engine().Claim(ctx, dir); err != nil { // a run beside this would take it for the work of its program
			fmt.Fprintf(a.Err, "note: the index of skills is not used: %s\n", termtext.Line(err.Error()))
			dir = ""
		}
	}
	return &skillroots.Scans{Index: dir, Now: a.now}
}

// took words one listing.
func took(s local.Scanned) string {
	text := fmt.Sprintf("%s looked at in %s", plural.Of(s.Folders, "folder"), milliseconds(s.Took))
	switch {
	case s.Unused != "":
		text += ", all read: the index was not used (" + s.Unused + ")"
	case s.Index != "":
		text += fmt.Sprintf(", %s unchanged since the index, %s read", plural.Thousands(int64(s.Known)), plural.Thousands(int64(s.Folders-s.Known)))
	}
	if s.Unsaved != nil {
		text += "; the index cannot be written: " + s.Unsaved.Error()
	}
	return text
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// showScans writes a line for each root that was listed.
func (a *app) showScans(s *skillroots.Scans) {
	for _, x := range s.List {
		fmt.Fprintln(a.Err, oneLine(x.Root+": "+took(x)))
	}
}

// index is the folder of the index on disk; clear empties it first.
func (d *doctor) index(clear bool) {
	dir, why := d.a.env.IndexDir()
	if dir == "" {
		d.ok("index", "there is none, every listing reads all heads: %s", why)
		return
	}
	if clear {
		n, err := local.Clear(dir)
		if err != nil {
			d.bad("index", &metier.Error{Op: "clear", Path: dir, Kind: metier.Unavailable, Code: "read_only", Hint: "remove the folder yourself", Err: err})
			return
		}
		d.ok("index", "%s removed from %s", plural.Of(n, "file"), dir)
	}
	files, err := filepath.Glob(filepath.Join(globQuote(dir), "*.idx"))
	size := int64(0)
	for _, f := range files {
		if info, err := os.Lstat(f); err == nil {
			size += info.Size()
		}
	}
	if err == nil {
		err = writable(dir)
	}
	if err != nil {
		d.note("index", "make it writable, or name another folder with METIER_INDEX", "every listing reads all heads: %v", err)
		return
	}
	d.ok("index", "%s of %d kB in %s", plural.Of(len(files), "file"), (size+999)/1000, dir)
}

// globQuote is a path as a pattern that means just it.
func globQuote(p string) string {
	if filepath.Separator != '/' {
		return p // no quotes there; such characters are rare in folders of a cache
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// servers is what is kept of servers' skills; clear removes it first.
func (d *doctor) servers(clear bool) {
	dir, why := d.a.env.CacheDir(engine.CacheServers)
	if dir == "" {
		d.ok("mcp cache", "there is none, files of servers' skills are fetched each time: %s", why)
		return
	}
	if clear {
		if err := os.RemoveAll(dir); err != nil {
			d.bad("mcp cache", &metier.Error{Op: "clear", Path: dir, Kind: metier.Unavailable, Code: "read_only", Hint: "remove the folder yourself", Err: err})
			return
		}
	}
	files, size := host.Cached(dir)
	d.ok("mcp cache", "%s of %d kB in %s", plural.Of(files, "file"), (size+999)/1000, dir)
}
