package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An environment holds secrets, and models see errors.
func TestErrorsShowNoValueOfAVariable(t *testing.T) {
	t.Parallel()
	for _, kv := range []string{"KEY=s3cret\x00", "=s3cret", "s3cret"} {
		j := Job{Argv: []string{"/bin/true"}, Env: []string{kv}}
		if err := j.Check(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", kv, err)
		}
	}
}

func TestJobsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	tree := func(path string, files ...string) Tree {
		tr := Tree{Path: path}
		for _, f := range files {
			tr.Files = append(tr.Files, File{Path: f})
		}
		return tr
	}
	tests := []struct {
		name string
		ok   bool
		edit func(*Job)
	}{
		{"a plain job", true, func(*Job) {}},
		{"an empty value, and = in one", true, func(j *Job) { j.Env = []string{"A=", "B=C=D"} }},
		{"two trees beside each other", true, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "x", "d/y"), tree("/skills/ab", "d/x")} }},
		{"no program", false, func(j *Job) { j.Argv = nil }},
		{"an empty program", false, func(j *Job) { j.Argv = []string{""} }},
		{"NUL in an argument", false, func(j *Job) { j.Argv = []string{"/bin/true", "a\x00b"} }},
		{"a variable without =", false, func(j *Job) { j.Env = []string{"A"} }},
		{"a variable without a name", false, func(j *Job) { j.Env = []string{"=A"} }},
		{"NUL in a variable", false, func(j *Job) { j.Env = []string{"A=\x00"} }},
		{"a relative folder", false, func(j *Job) { j.Dir = "tmp" }},
		{"a folder with dots", false, func(j *Job) { j.Dir = "/workspace/../etc" }},
		{"a level above all", false, func(j *Job) { j.MinLevel = L3 + 1 }},
		{"a level below all", false, func(j *Job) { j.MinLevel = L0 - 1 }},
		{"a tree elsewhere", false, func(j *Job) { j.Trees = []Tree{tree("/etc/x")} }},
		{"a tree that is the folder of all", false, func(j *Job) { j.Trees = []Tree{tree("/skills")} }},
		{"a tree that climbs out", false, func(j *Job) { j.Trees = []Tree{tree("/skills/../x")} }},
		{"a tree twice", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a"), tree("/skills/a")} }},
		{"a tree in a tree", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a"), tree("/skills/a/b")} }},
		{"a file that climbs out", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "../x")} }},
		{"a file that is two dots", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "..")} }},
		{"an absolute file", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "/x")} }},
		{"a file with doubled slashes", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "x//y")} }},
		{"a file twice", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "x", "x")} }},
		{"a file that is a folder", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "x/y", "x")} }},
		{"NUL in a file's name", false, func(j *Job) { j.Trees = []Tree{tree("/skills/a", "x\x00")} }},
		{"a relative workspace", false, func(j *Job) { j.Workspace.Host = "." }},
		{"a workspace with dots", false, func(j *Job) { j.Workspace.Host = host + string(filepath.Separator) + ".." }},
		{"a read-only path that climbs out", false, func(j *Job) { j.Workspace.ReadOnly = []string{"../x"} }},
		{"a hidden path that is everything", false, func(j *Job) { j.Workspace.Hidden = []string{"."} }},
		{"a negative limit", false, func(j *Job) { j.Limits.Output = -1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := Job{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, Dir: "/tmp", MinLevel: L2,
				Workspace: &Workspace{Host: host, ReadOnly: []string{".git/hooks"}, Hidden: []string{".env"}}}
			tt.edit(&j)
			if err := j.Check(); (err == nil) != tt.ok {
				t.Errorf("%v, want ok %v", err, tt.ok)
			}
		})
	}
}

func TestWhereAProgramStartsAndIsLookedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		job    Job
		start  string
		search []string
	}{
		{Job{}, "/tmp", nil},
		{Job{Workspace: &Workspace{}, Env: []string{"PATH=", "XPATH=/x"}}, "/workspace", []string{}},
		{Job{Workspace: &Workspace{}, Dir: "/skills/a", Env: []string{"PATH=/first", "A=", "PATH=.:/b::c:/d"}}, "/skills/a", []string{"/b", "/d"}},
	} {
		if got := tt.job.Start(); got != tt.start {
			t.Errorf("%+v starts in %s", tt.job, got)
		}
		if got := tt.job.Search(); !slices.Equal(got, tt.search) {
			t.Errorf("%+v: looked for in %q", tt.job, got)
		}
	}
}
