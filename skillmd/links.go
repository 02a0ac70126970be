package skillmd

import (
	"bytes"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// mostFindings is the maximum number of listed findings of each kind; further ones are counted.
const mostFindings = 20

// linkText is the maximum number of bytes that are checked for links, in whole lines. A file can be much longer, and every
// link reads the disk.
const linkText = 1 << 20

// body checks the instructions.
func (v *validator) body(body []byte, firstLine int) {
	for _, d := range bodyDiagnostics(body, firstLine) {
		if d.Code == CodeNotUTF8 {
			d.Severity = Error
		}
		v.diags = append(v.diags, d)
	}
	if n := firstLine - 1 + lines(body); n >= adviceLines {
		v.add(Advice, CodeLongInstructions, 0, 0,
			"SKILL.md has %d lines; keep it under %d and move details into files that are read on demand", n, adviceLines)
	}
	if n := len(body) / tokenBytes; n > adviceTokens {
		v.add(Advice, CodeManyTokens, 0, 0,
			"the instructions have about %d tokens; keep them under %d and move details into files that are read on demand", n, adviceTokens)
	}
	if v.in.Has == nil {
		return
	}
	if len(body) > linkText {
		body = body[:bytes.LastIndexByte(body[:linkText], '\n')+1]
		v.add(Advice, CodeLinksUnseen, firstLine+lines(body), 0, "links from here on are not checked: only the first %d bytes of instructions are", linkText)
	}
	found := map[string]int{}
	seen := map[string]bool{}
	for l := range links(body) {
		code, severity, detail := v.follow(l)
		if code == "" || seen[code+l.target] {
			continue
		}
		seen[code+l.target] = true
		if found[code]++; found[code] <= mostFindings {
			v.add(severity, code, firstLine+l.line, 0, detail, l.target)
		}
	}
	for _, code := range []string{CodeBrokenLink, CodeLinkLeaves, CodeMissingResource} {
		if n := found[code] - mostFindings; n > 0 {
			v.add(Advice, CodeMoreOfTheSameKind, 0, 0, "%d more of %s", n, code)
		}
	}
}

func lines(b []byte) int {
	n := bytes.Count(b, []byte("\n"))
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

// follow checks a link; code "" means that it is valid.
func (v *validator) follow(l link) (code string, severity Severity, detail string) {
	to, leaves := relative(l.target)
	switch {
	case leaves && !l.named:
		return CodeLinkLeaves, Warning, "link %q leaves the skill's folder; files outside it are not distributed with the skill"
	case leaves || to == "" || v.in.Has(to):
		return "", "", ""
	case l.named:
		return CodeMissingResource, Advice, "the skill has no file %q"
	}
	return CodeBrokenLink, Warning, "link %q does not point to a file in the skill"
}

// relative turns a link's target into a path below the folder. It returns "" for targets that are not paths: URLs, anchors,
// and placeholders.
func relative(target string) (to string, leaves bool) {
	t := strings.TrimSuffix(strings.TrimPrefix(target, "<"), ">")
	if i := strings.IndexAny(t, "#?"); i >= 0 {
		t = t[:i]
	}
	switch {
	case t == "", scheme.MatchString(t), strings.HasPrefix(t, "//"), strings.ContainsAny(t, "{}<>$*|~"), strings.Contains(t, "..."):
		return "", false
	case !strings.ContainsAny(t, "./\\"): // [text](url)
		return "", false
	case strings.HasPrefix(t, "/"):
		return t, true
	}
	if plain, err := url.PathUnescape(t); err == nil {
		t = plain
	}
	t = path.Clean(t)
	return t, t == ".." || strings.HasPrefix(t, "../")
}

// link is one mention of a file.
type link struct {
	target string
	named  bool // in backticks, not a link
	line   int  // lines before it
}

var (
	scheme     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)
	inline     = regexp.MustCompile(`\]\(\s*(<[^<>]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+["'(][^)]*)?\s*\)`)
	definition = regexp.MustCompile(`^ {0,3}\[[^\]^][^\]]*\]:\s*(\S+)`)
	codeSpan   = regexp.MustCompile("``.+?``|`[^`]+`")
	resource   = regexp.MustCompile("^`((?:\\./)?(?:scripts|references|assets|templates)/[^\\s`:]*\\.[A-Za-z0-9]+)`$")
)

// links yields the links of Markdown text and the resources that it names in backticks, except in code blocks.
func links(body []byte) func(yield func(link) bool) {
	return func(yield func(link) bool) {
		var code fence
		n := -1
		for raw := range bytes.Lines(body) {
			n++
			line := string(bytes.TrimRight(raw, "\r\n"))
			if code.holds(strings.TrimRight(strings.TrimLeft(line, " \t>"), " \t")) {
				continue
			}
			for _, span := range codeSpan.FindAllString(line, -1) {
				if m := resource.FindStringSubmatch(span); m != nil && !yield(link{m[1], true, n}) {
					return
				}
			}
			line = codeSpan.ReplaceAllString(line, "")
			if m := definition.FindStringSubmatch(line); m != nil && !yield(link{m[1], false, n}) {
				return
			}
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				if !yield(link{m[1], false, n}) {
					return
				}
			}
		}
	}
}
