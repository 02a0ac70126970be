package pagetext

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxHref is the maximum length in bytes of a link's address. Longer ones cannot be fetched.
const maxHref = 2048

// plain rewrites a page with only the relevant tags and attributes; everything else becomes text.
// The parser reopens each open formatting element in each block, with a copy of its attributes: 80
// KB with some hundred <b> followed by paragraphs become a gigabyte. Those elements do not matter
// here and are dropped, and no tag keeps more than a few attributes. What is text here is also text
// for the parser, wherever it is.
func plain(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	unread := false // inside an element without readable text and tags
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return b.String()
		case html.DoctypeToken:
			b.Write(z.Raw())
		case html.TextToken:
			if !unread {
				b.WriteString(html.EscapeString(string(z.Text())))
			}
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			unread = tag(&b, z, kind)
		}
	}
}

// tag writes a tag. It reports whether the content that follows is not text.
func tag(b *strings.Builder, z *html.Tokenizer, kind html.TokenType) (unread bool) {
	raw, more := z.TagName()
	name, mute := string(raw), false
	switch atom.Lookup(raw) {
	case atom.B, atom.Big, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U,
		atom.Noembed, atom.Plaintext, atom.Xmp:
		name, mute = name+"-", true // a meaningless name, in case it is hidden
	case atom.Code:
		name = "kbd" // written the same way
	case atom.Noscript:
		z.NextIsNotRawText() // there are no scripts here
	case atom.Script, atom.Style, atom.Iframe, atom.Noframes:
		unread = kind != html.EndTagToken
	}
	if kind == html.EndTagToken {
		b.WriteString("</" + name + ">")
		return false
	}
	attrs, hidden := attributes(z, more)
	if mute && !hidden {
		return false
	}
	b.WriteString("<" + name + attrs)
	if hidden {
		b.WriteString(" hidden")
	}
	if kind == html.SelfClosingTagToken {
		b.WriteString("/")
	}
	b.WriteString(">")
	return unread
}

// attributes returns the relevant attributes of a tag, formatted, and whether they hide the
// element. The first of duplicate attributes counts.
func attributes(z *html.Tokenizer, more bool) (written string, hidden bool) {
	seen := map[string]bool{}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		k := string(key)
		if k != "hidden" && k != "style" && k != "href" && k != "alt" || seen[k] {
			continue
		}
		seen[k] = true
		switch {
		case k == "hidden", k == "style":
			hidden = hidden || k == "hidden" || hides(string(value))
		case k == "alt" || len(value) <= maxHref:
			written += " " + k + `="` + html.EscapeString(string(value)) + `"`
		}
	}
	return written, hidden
}

// hides reports whether a style hides an element. Style sheets are not evaluated: they can hide
// text too.
func hides(style string) bool {
	s := strings.ToLower(strings.Join(strings.Fields(style), "")) + ";"
	for _, not := range []string{"display:none", "visibility:hidden", "font-size:0;", "font-size:0px", "opacity:0;"} {
		if strings.Contains(s, not) {
			return true
		}
	}
	return false
}
