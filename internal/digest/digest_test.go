package digest

import (
	"slices"
	"strings"
	"testing"
)

const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestBytesHasTheKnownValue(t *testing.T) {
	t.Parallel()
	if got := Bytes(nil); got != empty {
		t.Errorf("Bytes(nil) = %s, want %s", got, empty)
	}
	if !Valid(Bytes([]byte("x"))) {
		t.Error("a digest of ours is not Valid")
	}
}

func TestHasherEqualsBytes(t *testing.T) {
	t.Parallel()
	h := New()
	for _, part := range []string{"one", "", "two"} {
		h.Write([]byte(part))
	}
	if got, want := h.Sum(), Bytes([]byte("onetwo")); got != want {
		t.Errorf("Sum = %s, want %s", got, want)
	}
	h.Write([]byte("!"))
	if got, want := h.Sum(), Bytes([]byte("onetwo!")); got != want {
		t.Errorf("Sum after more = %s, want %s", got, want)
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"empty":       "",
		"bare hex":    strings.TrimPrefix(empty, "sha256:"),
		"upper case":  "sha256:" + strings.ToUpper(strings.TrimPrefix(empty, "sha256:")),
		"short":       empty[:len(empty)-1],
		"long":        empty + "0",
		"other hash":  strings.Replace(empty, "sha256", "sha512", 1),
		"not hex":     empty[:len(empty)-1] + "g",
		"upper label": "SHA256:" + empty[7:],
	} {
		if Valid(s) {
			t.Errorf("%s: Valid(%q) = true", name, s)
		}
	}
	if !Valid(empty) {
		t.Error("Valid(digest of nothing) = false")
	}
}

func TestTreeSeesEveryChangeAndNoOrder(t *testing.T) {
	t.Parallel()
	d := Bytes([]byte("1"))
	base := []Entry{{"SKILL.md", ModeFile, d}, {"scripts/a", ModeExec, d}}
	want := Tree(base)
	reversed := slices.Clone(base)
	slices.Reverse(reversed)
	if got := Tree(reversed); got != want {
		t.Errorf("order changed the tree: %s and %s", got, want)
	}
	if reversed[0].Path != "scripts/a" {
		t.Error("Tree sorted the caller's slice")
	}
	for name, files := range map[string][]Entry{
		"none":       {},
		"removed":    base[:1],
		"added":      append(slices.Clone(base), Entry{"x", ModeFile, d}),
		"renamed":    {base[0], {"scripts/b", ModeExec, d}},
		"mode":       {base[0], {"scripts/a", ModeFile, d}},
		"bytes":      {base[0], {"scripts/a", ModeExec, Bytes([]byte("2"))}},
		"doubled":    {base[0], base[0], base[1]},
		"split name": {base[0], {"scripts/", "a" + ModeExec, d}},
		"NUL name":   {{"SKILL.md\x00file\x00" + d + "\x00scripts/a", ModeExec, d}},
	} {
		if Tree(files) == want {
			t.Errorf("%s: same tree digest", name)
		}
	}
}

// The tree digest is part of stored approvals and records, so its form is fixed.
func TestTreeStaysTheSameForEver(t *testing.T) {
	t.Parallel()
	got := Tree([]Entry{{"SKILL.md", ModeFile, empty}, {"scripts/run.sh", ModeExec, empty}})
	const want = "sha256:887ab4a61c04ae3fcc1e0d73f08304efc3aa0d45bed2a6e383e193aa04d5d2a8"
	if got != want {
		t.Errorf("Tree = %s, want %s", got, want)
	}
}
