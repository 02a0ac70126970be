package pagetext

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxHref is the longest address that a link keeps, in bytes; none that is
// longer can be asked for.
const maxHref = 2048

// plain writes a page anew, with the tags and attributes that count here and all
// else as text. The parser opens each formatting element that is still open anew
// in each block, with a copy of its attributes: 80 KB of some hundred <b> and
// then paragraphs become a gigabyte. Those elements say nothing here and are left
// out, and no tag has more than a few attributes. What was text for this reading
// is text for the parser, whatever it stands in.
func plain(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	unread := false // inside what has no text for a reader and no tags
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

// tag writes a tag, and reports whether what follows is no text.
func tag(b *strings.Builder, z *html.Tokenizer, kind html.TokenType) (unread bool) {
	raw, more := z.TagName()
	name, mute := string(raw), false
	switch atom.Lookup(raw) {
	case atom.B, atom.Big, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U,
		atom.Noembed, atom.Plaintext, atom.Xmp:
		name, mute = name+"-", true // a name without a meaning, in case it is hidden
	case atom.Code:
		name = "kbd" // is written like it
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

// attributes are those of a tag that count, as they are written, and whether it
// says that it is hidden. Of two with one name the first counts.
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

// hides says that a style keeps an element from being shown. Style sheets are
// not read: text can be hidden in more ways.
func hides(style string) bool {
	s := strings.ToLower(strings.Join(strings.Fields(style), "")) + ";"
	for _, not := range []string{"display:none", "visibility:hidden", "font-size:0;", "font-size:0px", "opacity:0;"} {
		if strings.Contains(s, not) {
			return true
		}
	}
	return false
}
