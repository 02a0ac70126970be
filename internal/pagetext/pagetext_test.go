package pagetext_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"metier/internal/pagetext"
)

var base = &url.URL{Scheme: "https", Host: "example.com", Path: "/docs/page"}

func read(t *testing.T, body, contentType string) pagetext.Page {
	t.Helper()
	p, err := pagetext.Read([]byte(body), contentType, base)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPagesAreRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"white space is one blank", "<p>a\n\n  b <b>c</b>d</p>", "a b cd"},
		{"paragraphs", "<p>a<p>b<div>c</div>d", "a\n\nb\n\nc\nd"},
		{"headings", "<h1>Top</h1>x<h3><div>Deep</div></h3>", "# Top\n\nx\n\n### Deep"},
		{"lists", "<ul><li><p>one</p><li>two<ol><li>x<li>y</ol></ul>z", "- one\n- two\n  1. x\n  2. y\n\nz"},
		{"an empty item", "<ul><li></li><li>b</ul>", "-\n- b"},
		{"links are whole", `see <a href="../x?y=1#z">this <i>one</i></a>.`, "see [this one](https://example.com/x?y=1#z)."},
		{"links that lead nowhere are text", `<a href="javascript:alert(1)">a</a> <a>b</a> <a href="data:text/html,x">c</a> <a href="/x"></a>d`, "a b c d"},
		{"the base of the page counts", `<base href="https://other.example/a/"><a href="b">c</a>`, "[c](https://other.example/a/b)"},
		{"images are what they stand for", `<img src=a.png alt="a  cat"><img src=b.png>`, "[image: a cat]"},
		{"code stays as it is", "<p>Run <code>go  test</code>:<pre>a\n  b\r\n\n c</pre>after", "Run `go test`:\n\n```\na\n  b\n\n c\n```\n\nafter"},
		{"quotes", "<blockquote><p>a<p>b</blockquote>c", "> a\n>\n> b\n\nc"},
		{"tables that list", "<table><thead><tr><th>a<th>b<tbody><tr><td>1<td>two<br>lines</table>", "| a | b |\n|---|---|\n| 1 | two lines |"},
		{"tables that arrange", "<table><tr><td><p>left</p><td><ul><li>x</ul></table>", "left\n\n- x"},
		{"breaks", "a<br>b<hr>c", "a\nb\n\n---\n\nc"},
		{"no scripts, styles, drawings and comments", "a<script>b</script><style>c</style><svg><text>d</text></svg><!-- e --><template>f</template><iframe>g</iframe>h", "ah"},
		{"what is there without scripts", "<noscript><p>Use the list.</p></noscript>", "Use the list."},
		{"entities are characters", "&lt;b&gt; &amp;amp; &eacute;", "<b> &amp; é"},
		{"broken markup is read", "<p>a<b>b<p>c</i>d<table>e<td>f", "ab\n\ncde\n\n| f |"},
	} {
		p := read(t, tt.in, "text/html; charset=utf-8")
		if diff := cmp.Diff(tt.want, p.Text); diff != "" || !p.HTML {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestWhatNobodySeesIsLeftOutAndCounted(t *testing.T) {
	t.Parallel()
	p := read(t, `<title> My
		page </title><p>a<p hidden>1</p><div style="Display : none">2<p>3</div><span style="color:red;visibility:hidden">4</span><span style="font-size:0">5</span><b style="opacity:0;">6</b><p style="opacity:0.9">b`, "text/html")
	if p.Text != "a\n\nb" || p.Hidden != 5 || p.Title != "My page" {
		t.Errorf("%+v", p)
	}
}

func TestTextIsDecoded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, contentType, charset, want string }{
		{"as the server says", "caf\xe9", "text/plain; charset=iso-8859-1", "windows-1252", "café"},
		{"as the page says", "<meta charset=shift_jis><p>\x93\xfa\x96{", "text/html", "shift_jis", "日本"},
		{"UTF-8 that nobody names", "caf\xc3\xa9", "text/plain", "utf-8", "café"},
		{"a mark at the beginning", "\xef\xbb\xbfabc", "text/plain", "utf-8", "abc"},
		{"UTF-16", "\xff\xfea\x00b\x00", "text/plain", "utf-16le", "ab"},
		{"JSON", `{"a": 1}`, "application/json", "utf-8", `{"a": 1}`},
		{"no type at all", "plain\r\nwords", "", "utf-8", "plain\nwords"},
		{"a page of no type", " <!DOCTYPE html><p>x", "", "utf-8", "x"},
		{"a type that is none", "x", "nonsense", "utf-8", "x"},
		{"a stray byte", "a" + strings.Repeat("b", 100) + "\xff", "text/plain; charset=utf-8", "utf-8", "a" + strings.Repeat("b", 100) + "\uFFFD"},
		{"drawings are text", "<svg/>", "image/svg+xml", "utf-8", "<svg/>"},
	} {
		p := read(t, tt.body, tt.contentType)
		if p.Text != tt.want || p.Charset != tt.charset || p.Binary {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}

func TestBinaryIsNoText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, contentType string }{
		{"\x89PNG\r\n\x1a\n\x00\x00", "image/png"}, {"looks like text", "image/png"}, {"\x00\x01\x02", "application/octet-stream"},
		{"%PDF-1.7\n\x00", "application/pdf"}, {"\x00\x01", "text/html"}, {"a\x00b", "text/plain"}, {"\x7fELF\x02\x01\x01\x00", ""},
		{strings.Repeat("\x1f\x8b\x08\x02", 9), "application/gzip"},
	} {
		if p := read(t, tt.body, tt.contentType); !p.Binary || p.Text != "" {
			t.Errorf("%q as %q: %+v", tt.body, tt.contentType, p)
		}
	}
}

func TestTextIsBoundedByThePage(t *testing.T) {
	t.Parallel()
	_, err := pagetext.Read([]byte(strings.Repeat("<div>", 600)+"x"), "text/html", base)
	if !errors.Is(err, pagetext.ErrDepth) {
		t.Errorf("600 elements deep: %v", err)
	}
	long := *base
	long.Path = "/" + strings.Repeat("d/", 500)
	p, err := pagetext.Read([]byte(strings.Repeat("<b><p>x</b></p>", 600)), "text/html", base)
	if err != nil || strings.Count(p.Text, "x") != 600 {
		t.Errorf("elements that are closed in the wrong order: %v", err)
	}
	p, err = pagetext.Read([]byte(strings.Repeat("<a href=x>y</a>", 20_000)), "text/html", &long)
	if err != nil || !p.Truncated || len(p.Text) > pagetext.MaxText+1<<16 {
		t.Errorf("%v: %d bytes, truncated %v", err, len(p.Text), p.Truncated)
	}
}

func FuzzPage(f *testing.F) {
	for _, s := range []string{"<p>a", "<ul><li><p>one<li>two<ol><li>x</ol></ul>", "<a href=x><table><a href=y>z", "<pre>a\n<table><tr><td><pre>b", "<table><tr><th><ul><li>a<table><td>b", "<blockquote><h1><li>x",
		"<p hidden><b>x</p>y", "<base href=//a><a href=b>c", "<svg><p>x</svg>", "<title>a<b></title>", "\xff\xfe<\x00p\x00", "<meta charset=utf-16be>x", "<code><code></code>x</code>", "<select><option>a<option>b", "<template><p>x</template>y", "<h1></h1><br><br>x"} {
		f.Add([]byte(s), "text/html")
	}
	f.Add([]byte("a\x00"), "text/plain; charset=gbk")
	f.Fuzz(func(t *testing.T, b []byte, contentType string) {
		p, err := pagetext.Read(b, contentType, base)
		if err != nil {
			return
		}
		again, err := pagetext.Read(b, contentType, base)
		if err != nil || again != p {
			t.Fatalf("read twice: %+v, then %+v, %v", p, again, err)
		}
		if !utf8.ValidString(p.Text) || !utf8.ValidString(p.Title) || strings.Contains(p.Title, "\n") {
			t.Fatalf("%+v", p)
		}
		if p.Binary && (p.Text != "" || p.HTML) {
			t.Fatalf("binary: %+v", p)
		}
		if p.HTML && strings.TrimSpace(p.Text) != p.Text {
			t.Fatalf("blanks around %q", p.Text)
		}
	})
}

// A page with tens of thousands of html tags and of attributes is read as fast as
// any, and pages with some html tags in a row are read as they are.
func TestTagsThatAreThereOnceAreReadOnce(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("<html")
	for i := range 50_000 {
		fmt.Fprintf(&b, " a%d", i)
	}
	b.WriteString(">" + strings.Repeat("<HTML x><bODy y>", 50_000) + "<p>in the end")
	for name, page := range map[string]string{"many": b.String(), "few": "<html><body><p>in<html lang=en><body class=x> the end", "in text": strings.Repeat("<!--<html><body>-->", 9) + "<html><body><p>in the end"} {
		if p := read(t, page, "text/html"); p.Text != "in the end" {
			t.Errorf("%s: %q", name, p.Text)
		}
	}
}

func TestATitleIsBounded(t *testing.T) {
	t.Parallel()
	p := read(t, "<title>"+strings.Repeat("é ", 4000)+"</title>x", "text/html")
	if n := utf8.RuneCountInString(p.Title); n != pagetext.MaxTitle || !strings.HasSuffix(p.Title, "…") || p.Text != "x" {
		t.Errorf("%d characters: %q", n, p.Title)
	}
}

func TestWhatIsHiddenIsLeftOutWhateverTheElement(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"a<b hidden>never</b>z", "a<font style=' DISPLAY : None'>never</font>z", "a<i style='opacity:0' hidden>never</i>z", "a<code style='font-size:0'>never</code>z",
		"a<script><p>never</script>z", "a<p hidden>never<b>never</b>never</p>z", "a<b hidden='' hidden>never</b>z", "a<style></b>never</style>z"} {
		if p := read(t, page, "text/html"); strings.Join(strings.Fields(p.Text), "") != "az" {
			t.Errorf("%s: %q", page, p.Text)
		}
	}
}
