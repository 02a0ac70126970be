package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"metier/event"
	"metier/model/modeltest"
)

// edit is one file change that a task's model requests.
type edit struct {
	turn           int // from 1
	id             string
	file, old, new string // an empty old writes the file
	call           modeltest.Call
}

// edits are in the order in which a run makes them. Done twice, each leaves
// another file.
var edits = []edit{
	editing(2, 0, "count.txt", "one", "one one"),
	editing(3, 0, "count.txt", "two", "two two"),
	editing(3, 1, "notes/new.txt", "", "fresh\n"),
	editing(3, 2, "notes/new.txt", "fresh", "fresh fresh"),
}

func editing(turn, call int, file, old, new string) edit {
	e := edit{turn: turn, id: fmt.Sprintf("t%d.c%d", turn, call), file: file, old: old, new: new}
	if old == "" {
		e.call = modeltest.Call{Tool: "write_file", Args: fmt.Sprintf(`{"path":%q,"content":%q}`, file, new)}
	} else {
		e.call = modeltest.Call{Tool: "edit_file", Args: fmt.Sprintf(`{"path":%q,"old":%q,"new":%q}`, file, old, new)}
	}
	return e
}

// apply makes the edit in files, if what it changes is there.
func (e edit) apply(files map[string]string) {
	if e.old == "" {
		files[e.file] = e.new
	} else if text, ok := files[e.file]; ok {
		files[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
}

// possible lists what a workspace may contain after the edits, as task.files
// prints it. Every edit was made once, except that an edit with an unknown
// outcome may not have been made. It may then have left its temporary file.
func possible(edits []edit, unknown map[string]bool) (all []string) {
	open := slices.DeleteFunc(slices.Clone(edits), func(e edit) bool { return !unknown[e.id] })
	for missing := range 1 << len(open) {
		files, left := map[string]string{"count.txt": "one\ntwo\n"}, map[string]string{}
		for _, e := range edits {
			at := slices.IndexFunc(open, func(o edit) bool { return o.id == e.id })
			if at < 0 || missing&(1<<at) == 0 {
				e.apply(files)
				continue
			}
			after := maps.Clone(files)
			e.apply(after)
			left[filepath.Join(filepath.Dir(e.file), leftover)] = after[e.file]
		}
		all = append(all, listing(files))
		if len(left) > 0 {
			maps.Copy(files, left)
			all = append(all, listing(files))
		}
	}
	return all
}

// leftover is the name that task.files gives to a temporary file of an edit.
const leftover = ".metier-*.tmp"

var temporary = regexp.MustCompile(`^\.metier-[0-9a-f]+\.tmp$`)

func listing(files map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%s:\n%s", name, files[name])
	}
	return b.String()
}

// unknown returns the calls with an unknown outcome: those that the record
// marks as unknown, and the one whose entry was lost.
func (k *task) unknown() map[string]bool {
	calls := map[string]bool{}
	for _, e := range k.events() {
		switch e := e.(type) {
		case event.RecordRecovered:
			if id := regexp.MustCompile(`^[a-z]+:(t\d+\.c\d+)`).FindStringSubmatch(e.LostID); id != nil {
				calls[id[1]] = true
			}
		case event.ToolResult:
			if e.Code == "outcome_unknown" {
				calls[e.ID] = true
			}
		}
	}
	return calls
}
