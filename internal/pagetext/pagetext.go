// Package pagetext turns what a web server sent into text that can be read: an
// HTML page without its scripts, styles and hidden parts, or a text file as it
// is, in UTF-8. A page is untrusted: the work and the text are bounded by what
// came in, however it is nested.
package pagetext

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// Page is what there is to read.
type Page struct {
	Media     string // type/subtype in lower case; "" where the server said none that can be told
	Charset   string // as it was read: utf-8, windows-1252, shift_jis …; "" where Binary
	Binary    bool   // there is no text
	HTML      bool
	Title     string // of an HTML page, on one line, at most MaxTitle characters
	Text      string
	Hidden    int  // elements left out that a browser would not show
	Truncated bool // the text ends before the page does
}

// MaxText is how many bytes of text are made of one page, at least; what comes
// after is left out.
const MaxText = 1 << 20

// MaxTitle is how many characters of a title are kept.
const MaxTitle = 300

// ErrDepth is returned for HTML that nests deeper than 512 elements.
var ErrDepth = errors.New("the page nests its elements too deep")

// mediaOf is the type/subtype of a Content-Type, or "" where it is none.
func mediaOf(contentType string) string {
	m, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || len(m) > 100 || !strings.Contains(m, "/") {
		return ""
	}
	return m
}

// Read reads b, which was sent as contentType from base. The error is ErrDepth.
func Read(b []byte, contentType string, base *url.URL) (Page, error) {
	p := Page{Media: mediaOf(contentType)}
	p.HTML = p.Media == "text/html" || p.Media == "application/xhtml+xml" || p.Media == "" && looksHTML(b)
	if !p.HTML && binaryType(p.Media) {
		p.Binary = true
		return p, nil
	}
	if p.HTML { // so that a charset in the page counts
		contentType = "text/html" + contentType[min(len(contentType), len(p.Media)):]
	}
	text, name, ok := decode(b, contentType)
	if !ok {
		p.Binary, p.HTML = true, false
		return p, nil
	}
	p.Charset = name
	if !p.HTML {
		p.Text = strings.ReplaceAll(text, "\r\n", "\n")
		return p, nil
	}
	doc, err := html.ParseWithOptions(strings.NewReader(plain(text)), html.ParseOptionEnableScripting(false))
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrDepth, err)
	}
	w := writer{base: base, layout: map[*html.Node]bool{}}
	w.prune(doc, nil)
	w.children(doc)
	p.Title, p.Text, p.Hidden, p.Truncated = title(w.title), w.done(), w.hidden, w.full()
	return p, nil
}

// binaryType says that a media type is never text.
func binaryType(media string) bool {
	kind, sub, _ := strings.Cut(media, "/")
	switch kind {
	case "image", "audio", "video", "font", "model":
		return !strings.HasSuffix(sub, "+xml")
	}
	return false
}

func looksHTML(b []byte) bool {
	head := strings.ToLower(string(bytes.TrimLeft(b[:min(len(b), 512)], "\xef\xbb\xbf \t\r\n")))
	return strings.HasPrefix(head, "<!doctype html") || strings.HasPrefix(head, "<html") || strings.HasPrefix(head, "<head") || strings.HasPrefix(head, "<body")
}

// decode gives b in UTF-8, and the name of what it was in. ok is false for what
// is no text.
func decode(b []byte, contentType string) (text, name string, ok bool) {
	enc, name, sure := charset.DetermineEncoding(b, contentType)
	if !sure && utf8.Valid(b) {
		name = "utf-8"
	}
	if name != "utf-8" {
		out, err := enc.NewDecoder().Bytes(b)
		if err != nil {
			return "", "", false
		}
		b = out
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	head := b[:min(len(b), 8192)]
	if bytes.IndexByte(b, 0) >= 0 || 10*(bytes.Count(head, []byte("\uFFFD"))+controls(head)) > len(head) {
		return "", "", false
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), name, true
}

// controls counts bytes that no text has.
func controls(b []byte) (n int) {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			n++
		}
	}
	return n
}

// title is a title on one line, cut to MaxTitle.
func title(s string) string {
	r := []rune(oneLine(s))
	if len(r) > MaxTitle {
		r = append(r[:MaxTitle-1], '…')
	}
	return string(r)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
