package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// inner is the prefix of continuation lines of a question, so that they cannot be
// mistaken for what the answer covers.
const inner = "    "

// questionText returns the text of a question: the request, then what the answer
// covers.
func questionText(ask string, covers [][2]string) string {
	text := strings.ReplaceAll(printable(ask), "\n", "\n"+inner)
	for _, f := range covers {
		text += "\n" + f[0] + ": " + strings.ReplaceAll(printable(f[1]), "\n", string(unicode.ReplacementChar))
	}
	return text
}

// SplitQuestion splits the text of a question into the request, in one or more lines,
// and the labeled values that the answer covers.
func SplitQuestion(text string) (ask string, covers [][2]string) {
	for i, line := range strings.Split(text, "\n") {
		if more, is := strings.CutPrefix(line, inner); is && i > 0 {
			ask += "\n" + more
			continue
		}
		if i == 0 {
			ask = line
			continue
		}
		label, value, _ := strings.Cut(line, ": ")
		covers = append(covers, [2]string{label, value})
	}
	return ask, covers
}

// labelled pairs labels and values, and omits empty values.
func labelled(words ...string) [][2]string {
	var out [][2]string
	for i := 0; i+1 < len(words); i += 2 {
		if words[i+1] != "" {
			out = append(out, [2]string{words[i], words[i+1]})
		}
	}
	return out
}

// callWords describes what callBinds covers.
func callWords(r Request) [][2]string {
	words := []string{"tool", r.Tool}
	if r.Skill != nil {
		words = append(words, "skill", r.Skill.Name+" ("+r.Skill.ID+")")
	}
	if r.Level != "" || r.Network != "" { // it runs a program
		words = append(words, "sandbox", r.Level, "network", networkWords(r.Network))
	}
	return append(append(labelled(words...), each("path", r.paths())...), labelled("arguments", argsOfCall)...)
}

// allNetwork is the network of a program that runs on the host itself.
const allNetwork = "all that this machine has"

// argsOfCall and anyArgs describe which arguments an answer covers.
const (
	argsOfCall = "only these arguments"
	anyArgs    = "any"
)

func networkWords(n string) string {
	if n == "" {
		return "none"
	}
	return n
}

func each(label string, values []string) [][2]string {
	var out [][2]string
	for _, v := range values {
		out = append(out, [2]string{label, v})
	}
	return out
}

// described describes what a call would do. It reports any text that it cuts, so that
// users know what they approve.
func described(r Request) string {
	const most = 4000
	s := "call " + r.Tool
	var parts []string
	switch {
	case r.Entry != "":
		s = "run the script " + r.Entry
	case r.Summary != "":
		s += ": " + r.Summary
	case len(r.Commands) > 0 || r.Opaque:
		for _, c := range r.Commands {
			parts = append(parts, line(c))
		}
		if r.Opaque {
			parts = append(parts, "and more that cannot be determined: "+r.OpaqueWhy)
		}
	default:
		for _, p := range r.Paths {
			parts = append(parts, p.Path)
		}
		parts = append(parts, r.Hosts...)
	}
	if len(parts) > 0 {
		s += ": " + strings.Join(parts, "; ")
	}
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(s[:most], ""), len(s)-most)
	}
	return s
}

// line is a command in words that cannot be taken for others.
func line(c []string) string {
	out := make([]string, len(c))
	for i, w := range c {
		switch {
		case w == Dynamic:
			out[i] = "…"
		case w == "" || strings.ContainsAny(w, " \t\n\"'\\;|&<>()$`…"):
			out[i] = strconv.Quote(w)
		default:
			out[i] = w
		}
	}
	return strings.Join(out, " ")
}

// printable replaces characters that move the cursor, change the direction of text, or
// are invisible with a visible mark.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) && !unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return c
		}
		return unicode.ReplacementChar
	}, s)
}
