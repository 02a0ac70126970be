package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"metier/bench/subject"
)

// plantPlain writes n skills side by side: simple frontmatter, 4 KB of
// SKILL.md, a script, a reference and an asset each.
func plantPlain(dir string, n int) error {
	for i := range n {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		name := fmt.Sprintf("%s-%06d", subject.Word(r), i)
		front := fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n", name, subject.Sentence(r, 24))
		if err := plant(filepath.Join(dir, name), front+body(r, 4096-len(front))); err != nil {
			return err
		}
	}
	return nil
}

// plantMix writes n skills as repositories hold them: in groups two and three
// folders deep, a folder without a skill beside every sixth, and frontmatter
// and sizes in the proportions found in 72,753 public skills.
func plantMix(dir string, n int) error {
	for i := range n {
		r := rand.New(rand.NewPCG(2, uint64(i)))
		name := fmt.Sprintf("%s-%06d", subject.Word(r), i)
		group := filepath.Join(dir, fmt.Sprintf("group-%03d", i/50))
		if i%3 == 0 {
			group = filepath.Join(group, "more")
		}
		if err := plant(filepath.Join(group, name), mixed(r, name)+body(r, size(r))); err != nil {
			return err
		}
		if i%6 == 0 {
			docs := filepath.Join(group, "docs-"+name)
			if err := put(filepath.Join(docs, "page.md"), body(r, 1200)); err != nil {
				return err
			}
		}
	}
	return nil
}

// plant writes one skill with its files.
func plant(dir, text string) error {
	for name, data := range map[string]string{"SKILL.md": text, "scripts/run.sh": "#!/bin/sh\necho ok\n",
		"references/guide.md": strings.Repeat("A line of the guide.\n", 60), "assets/template.json": "{\"a\": 1}\n"} {
		if err := put(filepath.Join(dir, filepath.FromSlash(name)), data); err != nil {
			return err
		}
	}
	return nil
}

func put(path, data string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(data), 0o644)
}

// size is a length of SKILL.md: half below 5.7 KB, a tenth above 16 KB.
func size(r *rand.Rand) int {
	switch p := r.IntN(100); {
	case p < 50:
		return 1_000 + r.IntN(4_700)
	case p < 90:
		return 5_700 + r.IntN(10_600)
	}
	return 16_300 + r.IntN(20_000)
}

// mixed is the frontmatter of one skill; the shares are per hundred skills.
func mixed(r *rand.Rand, name string) string {
	var b strings.Builder
	field := func(share int, text string) {
		if r.IntN(100) < share {
			b.WriteString(text + "\n")
		}
	}
	b.WriteString("---\nname: " + name + "\n")
	switch p := r.IntN(100); {
	case p < 12:
		b.WriteString("description: |\n  " + subject.Sentence(r, 12) + "\n  " + subject.Sentence(r, 12) + "\n")
	case p < 21:
		b.WriteString("description: " + subject.Sentence(r, 12) + "\n  " + subject.Sentence(r, 12) + "\n")
	case p < 41:
		b.WriteString("description: \"" + subject.Sentence(r, 30) + "\"\n")
	case p < 42:
		b.WriteString("description: Use when: " + subject.Sentence(r, 20) + "\n") // an unquoted colon, to be repaired
	case p < 43:
		b.WriteString("description: **" + subject.Sentence(r, 4) + "** " + subject.Sentence(r, 10) + "\n") // reads as an alias
	default:
		b.WriteString("description: " + subject.Sentence(r, 30) + "\n")
	}
	field(23, "version: 1.0.0")
	field(22, "license: MIT")
	field(21, "author: "+subject.Word(r))
	one := func(shares []int, texts ...string) { // at most one of them
		p := r.IntN(100)
		for i, share := range shares {
			if p -= share; p < 0 {
				b.WriteString(texts[i] + "\n")
				return
			}
		}
	}
	one([]int{14, 6}, "metadata:\n  author: "+subject.Word(r)+"\n  requires:\n    bins:\n      - "+subject.Word(r)+"\n    env: ["+subject.Word(r)+"]",
		"metadata: {\"tool\": {\"emoji\": \"x\", \"requires\": {\"bins\": [\""+subject.Word(r)+"\"]}}}")
	one([]int{11, 3}, "allowed-tools: Read, Write, Bash(git:*), Grep", "allowed-tools:\n  - Read\n  - Bash")
	one([]int{10, 4}, "tags: ["+subject.Word(r)+", "+subject.Word(r)+", "+subject.Word(r)+"]", "tags:\n  - "+subject.Word(r)+"\n  - "+subject.Word(r))
	field(13, "source: community")
	field(9, "risk: safe")
	field(8, "date_added: \"2026-02-27\"")
	field(7, "category: "+subject.Word(r))
	field(7, "compatibility: needs "+subject.Word(r))
	field(2, "argument-hint: [file]")
	field(2, "user-invocable: true")
	b.WriteString("---\n")
	return b.String()
}

func body(r *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString("\n# " + subject.Sentence(r, 3) + "\n\n")
	for b.Len() < n {
		b.WriteString(subject.Sentence(r, 14) + "\n")
	}
	return b.String()
}
