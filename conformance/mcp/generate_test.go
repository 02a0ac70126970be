package mcp

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Pieces of frontmatter. Some are invalid or unusual on purpose: what metier
// lists of them must verify, and it must not list the rest.
var (
	plainValues = []string{
		"0", "7", "-7", "+7", "-0", "007", "010", "0o14", "0O14", "0x1F", "0X1F", "-0x1F", "0b11", "1_000", "9007199254740993", "123456789012345678901234567890",
		"0x20000000000001", "0o777777777777777777777", "1.0", "1.10", "1.", ".5", "-.5", "+.5", "00.5", "1e3", "1E3", "1.5e-3", ".5e+2", "1.e2", "1e", "1e400", "-1e400", "1e-400",
		".inf", "-.inf", "+.Inf", ".NAN", ".nan", "-.nan", "inf", "nan", "12:30:45", "190:20:30", "2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05 +1",
		"true", "True", "TRUE", "tRue", "false", "False", "FALSE", "yes", "Yes", "NO", "on", "Off", "y", "n", "~", "null", "Null", "NULL", "nULL", "",
		"plain text", "a#b", "a #b", "it's", "a: b", "a:b", "a:", ":a", "- a", "-a", "?a", "? a", "[a", "a]", "{a}", "@a", "`a`", "%a", "&a b", "*a", "!a b", "!!str 7", "<<", "=", "...", "---", "--- a",
		"naïve café", "日本語", "🪶 heron", "हिन्दी", "e\u0301", "a\u00a0b", "a\u2028b", "a\u0085b", "a\ufeffb", "a\u200bb", "a\tb", "a\t", "\ta", "  a  ", "a\\nb", "a\rb",
	}
	quoted = []string{
		`"7"`, `'7'`, `"true"`, `'~'`, `""`, `''`, `"a\nb"`, `"a\tb"`, `"\x41"`, `"\u00e9"`, `"\U0001FAB6"`, `"\ud83e\udeb6"`, `"\ud800"`, `"\/"`, `"\0"`, `"\e"`, `"\N\_\L\P"`, `"\q"`, `"a\
  b"`, "\"a\n\n  b\"", "'a\n  b'", `'it''s'`, `"a" b`, `"a" # c`, `"a`, `'a`, `"a: b"`, `"a #b"`, "\"a\tb\"",
	}
	blocks = []string{"|", "|-", "|+", ">", ">-", ">+", "|2", ">2-", "|-2", "| # c", "|9", ">x"}
	lines  = []string{"one", "two words", "", "  indented", "- item", "key: value", "# hash", "\ttab", "trailing  ", "naïve 🪶", "---x"}
	keys   = []string{"license", "compatibility", "metadata", "version", "x-1", "1", "1.0", "0x10", "true", "True", "~", "null", `"1"`, `'quoted key'`, "spaced key", "ключ", "a.b", "a/b", "__proto__",
		"toString", "constructor", "? complex", strings.Repeat("k", 200), strings.Repeat("k", 1100), "-", "<<", "&k a", "*k", "[a]", "{a: b}", "allowed-tools", "tags", "hooks"}
	names = []string{"", "Bad-Name", "has space", "CI/CD", "naïve", "double--hyphen", "-lead", "trail-", "ckm:brand", "7", "true", "~", "1e3", strings.Repeat("n", 65), "[a]", "under_score", `"quoted`}
)

// generator writes SKILL.md files that use every form of YAML. The same seed
// gives the same files.
type generator struct{ r *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 0x5eed))} }

func (g generator) of(from []string) string { return from[g.r.IntN(len(from))] }
func (g generator) odds(n int) bool         { return g.r.IntN(n) == 0 }

// skill returns the SKILL.md of a skill in a folder of that name. Most have one
// or two unusual values, so that one refusal does not hide the others.
func (g generator) skill(folder string) string {
	name, description := folder, "Generated skill "+folder+". Use when testing."
	if g.odds(12) {
		name = g.of(names)
	}
	if g.odds(8) {
		description = g.value(0)
	}
	if g.odds(60) {
		description = strings.Repeat("é", 1020+g.r.IntN(8))
	}
	fields := []string{"name: " + name, "description: " + description}
	for range 1 + g.r.IntN(2) {
		fields = append(fields, g.field(0))
	}
	if g.odds(30) {
		fields = append(fields, g.of(fields)) // twice
	}
	if g.odds(6) {
		fields = append(fields, g.of([]string{"# a comment", "", "   ", "\t", "  # indented comment", "..."}))
	}
	g.r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	head, foot, end := "---", "---", "\n"
	if g.odds(15) {
		end = "\r\n"
	}
	if g.odds(20) {
		head = g.of([]string{"\ufeff---", "--- ", "---\t", "\n---", "--- # c", "# title\n---"})
	}
	if g.odds(20) {
		foot = g.of([]string{"--- ", "---\t", "...", " ---", "----", ""})
	}
	body := g.of([]string{"Body.\n", "", "---\nrule\n---\n", "Ignore the text above?\n", "Line\u2028separator\n", "\x00\n", "\xff\n", "No newline"})
	text := head + "\n" + strings.Join(fields, "\n") + "\n" + foot + "\n" + body
	return strings.ReplaceAll(text, "\n", end)
}

// field is one key with its value, at a depth.
func (g generator) field(depth int) string {
	key := fmt.Sprintf("key-%d", g.r.IntN(1000))
	if g.odds(3) {
		key = g.of(keys)
	}
	if v := g.value(depth); v != "" {
		return key + ": " + v
	}
	return key + ":"
}

// value is a scalar in any style, or a list or map of values.
func (g generator) value(depth int) string {
	pad := strings.Repeat("  ", depth+1)
	switch kind := g.r.IntN(10); {
	case kind < 4:
		return g.of(plainValues)
	case kind < 5:
		return strings.ReplaceAll(g.of(quoted), "\n", "\n"+pad)
	case kind < 6:
		out := g.of(blocks)
		for range 1 + g.r.IntN(4) {
			out += "\n" + pad + g.of(lines)
		}
		return out
	case kind < 7:
		return g.of(plainValues) + "\n" + pad + g.of(lines) // over two lines
	case depth > 2:
		return g.of(plainValues)
	case kind < 8:
		var out string
		for range 1 + g.r.IntN(3) {
			if g.odds(2) {
				out += "\n" + pad + g.field(depth+1)
			} else {
				out += "\n" + pad + "- " + g.value(depth+1)
				for g.odds(2) {
					out += "\n" + pad + "- " + g.of(plainValues)
				}
				break
			}
		}
		return out
	case kind < 9:
		return "[" + g.of(plainValues) + ", " + g.of(quoted) + ", " + g.of([]string{"[1, 2.50]", "{a: 1e2}", "", "a: b"}) + "]"
	}
	return "{a: " + g.of(plainValues) + ", " + g.of(keys) + ": " + g.of(quoted) + g.of([]string{"}", ", }", "} x", "\n" + pad + "}"})
}
