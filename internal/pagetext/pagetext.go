// Package pagetext converts a web server's response to readable text in UTF-8: an HTML page without
// its scripts, styles, and hidden parts, or a text file as it is. Pages are untrusted: time and
// output are bounded by the input size, whatever the nesting.
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

// Page is the readable content of a response.
type Page struct {
	Media     string // type/subtype in lower case; "" where the server said none that can be told
	Charset   string // as it was read: utf-8, windows-1252, shift_jis …; "" where Binary
	Binary    bool   // contains no text
	HTML      bool
	Title     string // of an HTML page, on one line, at most MaxTitle characters
	Text      string
	Hidden    int  // number of elements omitted because a browser would not show them
	Truncated bool // the text ends before the page does
}

// MaxText is the minimum limit in bytes for the text of a page. Text beyond the limit is omitted.
const MaxText = 1 << 20

// MaxTitle is the maximum length of a title in characters.
const MaxTitle = 300

// ErrDepth is returned for HTML that is nested deeper than 512 elements.
var ErrDepth = errors.New("the page nests its elements too deep")

// mediaOf returns the type/subtype of a Content-Type, or "" if it is invalid.
func mediaOf(contentType string) string {
	m, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || len(m) > 100 || !strings.Contains(m, "/") {
		return ""
	}
	return m
}

// Read converts b, which was sent as contentType from base. Its only error is ErrDepth.
func Read(b []byte, contentType string, base *url.URL) (Page, error) {
	p := Page{Media: mediaOf(contentType)}
	p.HTML = p.Media == "text/html" || p.Media == "application/xhtml+xml" || p.Media == "" && looksHTML(b)
	if !p.HTML && binaryType(p.Media) {
		p.Binary = true
		return p, nil
	}
	if p.HTML { // to respect a charset declared in the page
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

// binaryType reports whether a media type is never text.
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

// decode converts b to UTF-8 and returns the name of its encoding. ok is false if b is not text.
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

// controls counts bytes that do not occur in text.
func controls(b []byte) (n int) {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			n++
		}
	}
	return n
}

// title returns a title on one line, cut to MaxTitle.
func title(s string) string {
	r := []rune(oneLine(s))
	if len(r) > MaxTitle {
		r = append(r[:MaxTitle-1], '…')
	}
	return string(r)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
