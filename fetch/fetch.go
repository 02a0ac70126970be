// Package fetch holds web_fetch, the tool by which a model reads a page of the
// network. It goes the way that programs go:
//
//	address  what the call names, in the one form in which hosts are compared
//	decide   policy, in the session's gate: the host is among the facts
//	get      through a proxy of internal/egress that knows this one host; the
//	         tool opens no connection of its own
//	read     HTML to text, bounded; what is binary is described
//	record   what was asked, what answered, its digest, and every host
//
// The effect is a side effect, not a read: a request leaves the machine, its
// address can carry out whatever the model knows, and a server may act on it.
// So the enforcing modes want a direct command for it, plan mode does not have it,
// and a call that was cut off is not made again by itself.
package fetch

import (
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"metier"
	"metier/event"
	"metier/internal/argschema"
	"metier/internal/digest"
	"metier/internal/egress"
	"metier/internal/pagetext"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

//go:embed web_fetch.md
var aboutText string

// Options say how pages are fetched. The zero value is ready.
type Options struct {
	UserAgent string         // "": metier
	Timeout   time.Duration  // of one call; 0: 30 s
	Roots     *x509.CertPool // nil: the system's
	// Resolve and Connect are those of the proxy; nil: the system's resolver, and
	// a dial of public addresses alone. Tests bring their own, no setting can.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Connect func(ctx context.Context, a netip.AddrPort) (net.Conn, error)
}

// Tool returns web_fetch. Grants decide whether a model gets it; it is in no
// default set.
func Tool(o Options) metier.Tool {
	if o.Timeout == 0 {
		o.Timeout = callDefault
	}
	if o.UserAgent == "" {
		o.UserAgent = "metier"
	}
	return tool{o}
}

type tool struct{ Options }

// call is the arguments, and what they say.
type call struct {
	URL      string `json:"url"`
	MaxBytes *int   `json:"maxBytes,omitempty"`
	Start    int    `json:"start,omitempty"`
}

func (t tool) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	schema := argschema.Object(map[string]any{
		"url":      map[string]any{"type": "string", "maxLength": urlMax, "description": "URL of the page, with http:// or https://."},
		"maxBytes": map[string]any{"type": "integer", "minimum": 1, "maximum": shownMax, "description": fmt.Sprintf("Maximum number of bytes of text to show (default %d).", shownDefault)},
		"start":    map[string]any{"type": "integer", "minimum": 0, "description": "Byte offset to start at, as given in a result."},
	}, "url")
	return metier.Spec{Canonical: settings.ToolWebFetch, Effect: policy.SideEffect,
		ToolSpec: model.ToolSpec{Name: settings.ToolWebFetch, Description: strings.TrimSpace(aboutText), Schema: schema}}, true
}

func (t tool) args(raw json.RawMessage) (call, address, error) {
	var a call
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, address{}, err
	}
	switch {
	case a.URL == "":
		return a, address{}, metier.InvalidArguments("url is missing")
	case a.MaxBytes != nil && (*a.MaxBytes < 1 || *a.MaxBytes > shownMax):
		return a, address{}, metier.InvalidArguments("maxBytes is not 1 to %d", shownMax)
	case a.Start < 0:
		return a, address{}, metier.InvalidArguments("start is less than 0")
	}
	to, err := parse(a.URL)
	return a, to, err
}

// Facts states the one host that the call would reach. A redirect to another
// one is another call.
func (t tool) Facts(_ context.Context, _ *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	_, to, err := t.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	return metier.Facts{Request: policy.Request{Effect: policy.SideEffect, Hosts: []string{to.host}, Summary: "GET " + to.String()}}, nil
}

// Invoke reads the page. The error is that of a call that was cancelled.
func (t tool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, to, err := t.args(x.Call().Args)
	if err != nil {
		return metier.Failure(err), nil
	}
	within, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	got, err := t.get(within, to)
	if ctx.Err() == nil && within.Err() != nil && err != nil {
		err = fault(metier.Unavailable, "fetch_timeout", "", "got no complete answer within %v", t.Timeout)
	}
	ev := event.PageFetched{Call: x.Call().ID, Status: statusError, Hosts: got.hosts, Refused: got.refused, HTTP: got.status, Redirects: got.redirects}
	if ctx.Err() != nil {
		err = ctx.Err() // the request may have arrived
	}
	var res metier.Result
	if err == nil {
		res, err = show(x, a, got, &ev)
	}
	if err != nil {
		if ev.Status, ev.Code = statusError, metier.CodeOf(err); ctx.Err() != nil {
			ev.Code = "cancelled"
		}
		res = metier.Failure(err)
	}
	if got.at.URL == nil {
		got.at = to
	}
	if err := keep(context.WithoutCancel(ctx), x, to, got, &ev); err != nil {
		return metier.Result{}, err
	}
	x.Record(ev)
	if ctx.Err() != nil {
		return metier.Result{}, ctx.Err()
	}
	return res, nil
}

// How a call ended, in the record.
const (
	statusRead       = "read"
	statusBinary     = "binary"
	statusRedirected = "redirected"
	statusError      = "error"
)

// keep puts what the record refers to into the blobs.
func keep(ctx context.Context, x *metier.ToolContext, asked address, got answer, ev *event.PageFetched) (err error) {
	if ev.URL, err = x.Put(ctx, "text/plain", []byte(asked.String())); err != nil {
		return err
	}
	final := got.at.String()
	if got.to != "" {
		final = got.to
	}
	if ev.FinalURL, err = x.Put(ctx, "text/plain", []byte(final)); err != nil || ev.Status != statusRead {
		return err
	}
	ev.Body, err = x.Put(ctx, "application/octet-stream", got.body)
	return err
}

// detail is the tool output artifact.
type detail struct {
	URL         string `json:"url"`
	FinalURL    string `json:"finalUrl"`
	Status      int    `json:"status"`
	ContentType string `json:"contentType"`
	Charset     string `json:"charset,omitempty"`
	Title       string `json:"title,omitempty"`
	Size        int64  `json:"sizeBytes"`
	Digest      string `json:"digest"`
	Cut         bool   `json:"cut,omitempty"` // the page has more bytes than are read
	Text        int    `json:"textBytes"`
	From        int    `json:"from"`
	To          int    `json:"to"`
	Next        int    `json:"next,omitempty"`
	Hidden      int    `json:"hiddenElements,omitempty"`
	Location    string `json:"location,omitempty"` // of a redirect that was not followed
}

func show(x *metier.ToolContext, a call, got answer, ev *event.PageFetched) (metier.Result, error) {
	d := detail{URL: a.URL, FinalURL: got.at.String(), Status: got.status, Size: int64(len(got.body)), Digest: digest.Bytes(got.body), Cut: got.more, Location: got.to}
	ev.Digest, ev.Size, ev.Truncated = d.Digest, d.Size, d.Cut
	if got.to != "" {
		ev.Status, ev.Code = statusRedirected, got.why
		return result(got, redirected(got), got.why, d)
	}
	p, err := pagetext.Read(got.body, got.contentType, got.at.URL)
	if err != nil {
		return metier.Result{}, fault(metier.Invalid, "page_unreadable", "", "%w", err)
	}
	d.ContentType, d.Charset, d.Title, d.Hidden, d.Text = p.Media, p.Charset, p.Title, p.Hidden, len(p.Text)
	ev.Status, ev.Media, ev.Charset = statusRead, p.Media, p.Charset
	code := ""
	if got.status >= 400 {
		code, ev.Code = codeStatus, codeStatus
	}
	if p.Binary {
		ev.Status = statusBinary
		return result(got, binary(got, d), code, d)
	}
	if a.Start > len(p.Text) {
		return metier.Result{}, fault(metier.Invalid, "start_past_end", "", "start is %d and the text has %d bytes", a.Start, len(p.Text))
	}
	most := shownDefault
	if a.MaxBytes != nil {
		most = *a.MaxBytes
	}
	part := cut(p.Text, a.Start, most, &d)
	return result(got, page(x, got, p, part, d), code, d)
}

// codeStatus is the code of a page that the server gave with a status of 400 or
// above.
const codeStatus = "http_error"

// cut takes whole characters of the text from start on.
func cut(text string, start, most int, d *detail) string {
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	end := min(len(text), start+most)
	for end > start && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	if end == start && end < len(text) { // a character that is longer than what was asked for
		_, n := utf8.DecodeRuneInString(text[start:])
		end += n
	}
	d.From, d.To = start, end
	if end < len(text) {
		d.Next = end
	}
	return text[start:end]
}

func result(got answer, text, code string, d detail) (res metier.Result, err error) {
	res = metier.Text(text)
	res.Code, res.Label = code, policy.Label{Role: policy.Context, Origin: "web:" + got.at.host, Tier: policy.ThirdParty, Mediated: true}
	res.Detail, err = json.Marshal(d)
	return res, err
}

func fault(k metier.Kind, code, hint, format string, a ...any) error {
	return &metier.Error{Op: settings.ToolWebFetch, Kind: k, Code: code, Hint: hint, Err: fmt.Errorf(format, a...)}
}

// refused is what the proxy said no to, or could not do.
func refused(h egress.Host) error {
	kind := metier.Denied
	text := "the proxy refused it"
	switch h.Code {
	case egress.AddressNotPublic:
		text = "the host leads to a private, local or special address"
	case egress.HostUnresolved:
		kind, text = metier.Unavailable, "the host has no address"
	case egress.DialFailed:
		kind, text = metier.Unavailable, "no address of the host answers"
	case egress.UpstreamInvalid, egress.NotTLS, egress.NameMismatch:
		kind, text = metier.Unavailable, "the host's answer is not HTTP"
	case egress.Idle, egress.HeadTimeout:
		kind, text = metier.Unavailable, "the host went silent"
	case egress.BytesDown, egress.BytesUp:
		kind, text = metier.LimitReached, "the answer is larger than a call may get"
	}
	return &metier.Error{Op: settings.ToolWebFetch, Kind: kind, Code: string(h.Code), Err: errors.New(text + ": " + h.Host)}
}
