package fetch

import (
	"fmt"
	"net/http"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/injection"
	"metier/internal/pagetext"
	"metier/internal/promptescape"
)

// page is what the model reads: where the text is from, the text in an element
// that it cannot leave, and how to go on.
func page(x *metier.ToolContext, got answer, p pagetext.Page, part string, d detail) string {
	var b strings.Builder
	if got.status != http.StatusOK {
		fmt.Fprintf(&b, "The server answered %s.\n", status(got.status))
	}
	attributes := fmt.Sprintf(` url="%s" type="%s" origin="third-party, untrusted"`, promptescape.Attribute(d.FinalURL), promptescape.Attribute(d.ContentType))
	if d.From > 0 || d.Next > 0 {
		attributes += fmt.Sprintf(` from="%d" shown="%d" of="%d"`, d.From, len(part), d.Text)
	}
	if p.Title != "" && d.From == 0 {
		part = "Title: " + p.Title + "\n\n" + part
	}
	text, n := promptescape.Element("web_page", attributes, part)
	if n > 0 {
		x.Record(event.Note{Code: "wrapper-tag-neutralized", On: x.Call().ID, N: n})
	}
	if found := len(injection.Find(part)); found > 0 {
		x.Record(event.Note{Code: "page-reads-like-injection", On: x.Call().ID, N: found})
	}
	b.WriteString(text)
	switch {
	case d.Next > 0:
		fmt.Fprintf(&b, "[bytes %d to %d of %d; continue with start %d]\n", d.From, d.To, d.Text, d.Next)
	case d.Text == 0:
		b.WriteString("[the page has no text]\n")
	}
	if d.Hidden > 0 {
		fmt.Fprintf(&b, "[%d elements that a browser would not show are left out]\n", d.Hidden)
	}
	if d.Cut || p.Truncated {
		fmt.Fprintf(&b, "[the page is larger than what is read of one: %d bytes of it, and %d of text]\n", d.Size, d.Text)
	}
	return b.String()
}

// binary says what there is instead of a text.
func binary(got answer, d detail) string {
	size := fmt.Sprintf("%d bytes", d.Size)
	if d.Cut {
		size = "more than " + size
	}
	kind := d.ContentType
	if kind == "" {
		kind = "no content type"
	}
	return fmt.Sprintf("The server answered %s with content that is not text: %s, %s, %s. It is not shown.\n", status(got.status), promptescape.Plain(kind), size, d.Digest)
}

// redirected says where a page leads that was not followed.
func redirected(got answer) string {
	if got.why == codeRound {
		return fmt.Sprintf("%s: too many redirects; %d were followed. The next is:\n%s\n", got.why, got.redirects, promptescape.Plain(got.to))
	}
	return fmt.Sprintf("%s: the page moved (%s). metier does not follow redirects to another host or from TLS to plain HTTP. To fetch it, call web_fetch again with this address.\n%s\n",
		got.why, status(got.status), promptescape.Plain(got.to))
}

// status is a status in words that are not the server's.
func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}
