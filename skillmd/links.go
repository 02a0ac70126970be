package skillmd

import (
	"bytes"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// mostFindings is how many broken links, leaving links and missing resources are listed; the rest is counted.
const mostFindings = 20

// linkText is how many bytes of the instructions are looked through for links, whole lines of them. A file may be much longer, and
// every link asks the disk.
const linkText = 1 << 20

// body gives what a reader of the instructions would stumble over.
func (v *validator) body(body []byte, firstLine int) {
	for _, d := range bodyDiagnostics(body, firstLine) {
		if d.Code == CodeNotUTF8 {
			d.Severity = Error
		}
		v.diags = append(v.diags, d)
	}
	if n := firstLine - 1 + lines(body); n >= adviceLines {
		v.add(Advice, CodeLongInstructions, 0, 0,
			"SKILL.md has %d lines; keep it under %d, with details in files that are read when they are needed", n, adviceLines)
	}
	if n := len(body) / tokenBytes; n > adviceTokens {
		v.add(Advice, CodeManyTokens, 0, 0,
			"the instructions have about %d tokens; keep them under %d, with details in files that are read when they are needed", n, adviceTokens)
	}
	if v.in.Has == nil {
		return
	}
	if len(body) > linkText {
		body = body[:bytes.LastIndexByte(body[:linkText], '\n')+1]
		v.add(Advice, CodeLinksUnseen, firstLine+lines(body), 0, "links from here on are not looked at: instructions may have %d bytes for that", linkText)
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

// follow says what is wrong with a link; code "" is nothing.
func (v *validator) follow(l link) (code string, severity Severity, detail string) {
	to, leaves := relative(l.target)
	switch {
	case leaves && !l.named:
		return CodeLinkLeaves, Warning, "link %q leaves the skill's folder, which is all a client has to ship"
	case leaves || to == "" || v.in.Has(to):
		return "", "", ""
	case l.named:
		return CodeMissingResource, Advice, "%q is named, but there is no such file in the skill"
	}
	return CodeBrokenLink, Warning, "link %q leads to no file of the skill"
}

// relative turns a link's target into a path below the folder; to "" is no path to be looked for: an address, an anchor, a
// placeholder.
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

// links goes through the links of Markdown text and the resources it names in backticks, leaving out code blocks.
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
