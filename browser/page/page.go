// Package page controls one page of a browser over the DevTools protocol: it opens an address,
// fills in and submits a form, and reads the page. It has only what the program pagehand needs and
// writes no files.
package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"metier/internal/loopback"
)

const (
	mostMessage = 64 << 20         // bytes
	loads       = 20 * time.Second // time limit for loading a page
	settles     = 5 * time.Second  // time limit for the page that answers a form
)

// Page is a connection to one page. Close it after use. It is not safe for concurrent use.
type Page struct {
	conn  *websocket.Conn
	last  int64
	state navigation
}

// navigation is the state of the page according to its events.
type navigation struct {
	loaded int    // number of loads
	failed string // last address that failed to load
}

// Connect connects to the first page of the browser behind an endpoint on this machine:
// http://127.0.0.1:PORT, with a path for an endpoint of a lease.
func Connect(ctx context.Context, endpoint string) (*Page, error) {
	u, addr, err := loopback.Endpoint(endpoint, "http")
	if err != nil {
		return nil, fmt.Errorf("the browser endpoint must be local: %w", err)
	}
	client := loopback.Client(addr)
	at, err := first(ctx, client, "http://"+addr+strings.TrimSuffix(u.Path, "/"))
	if err != nil {
		return nil, err
	}
	conn, res, err := websocket.Dial(ctx, "ws://"+addr+at, &websocket.DialOptions{HTTPClient: client})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("the page of the browser does not answer: %w", err)
	}
	conn.SetReadLimit(mostMessage)
	p := &Page{conn: conn}
	return p, p.call(ctx, "Page.enable", nil, nil)
}

// first returns the path of the first page. It creates a page if there is none.
func first(ctx context.Context, client *http.Client, base string) (string, error) {
	var list []struct {
		Type string `json:"type"`
		URL  string `json:"webSocketDebuggerUrl"`
	}
	if err := get(ctx, client, http.MethodGet, base+"/json/list", &list); err != nil {
		return "", err
	}
	var made struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	for _, e := range list {
		if e.Type == "page" {
			made.URL = e.URL
			break
		}
	}
	if made.URL == "" {
		if err := get(ctx, client, http.MethodPut, base+"/json/new?about:blank", &made); err != nil {
			return "", err
		}
	}
	at, err := url.Parse(made.URL)
	if err != nil || at.Path == "" {
		return "", errors.New("the browser names no page")
	}
	return at.Path, nil
}

func get(ctx context.Context, client *http.Client, method, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the browser does not answer: %w", err)
	}
	defer res.Body.Close()
	body := http.MaxBytesReader(nil, res.Body, 4<<20)
	if res.StatusCode != http.StatusOK {
		b := make([]byte, 512)
		n, _ := body.Read(b)
		return fmt.Errorf("the browser answers %d: %s", res.StatusCode, strings.TrimSpace(string(b[:n])))
	}
	return json.NewDecoder(body).Decode(into)
}

// Close closes the connection. The page stays open.
func (p *Page) Close() error { return p.conn.CloseNow() }

type message struct {
	ID     int64           `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// call sends a method and reads messages until the response arrives.
func (p *Page) call(ctx context.Context, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	p.last++
	id := p.last
	b, err := json.Marshal(message{ID: id, Method: method, Params: raw})
	if err != nil {
		return err
	}
	if err := p.conn.Write(ctx, websocket.MessageText, b); err != nil {
		return fmt.Errorf("the browser is gone: %w", err)
	}
	for {
		m, err := p.read(ctx)
		switch {
		case err != nil:
			return err
		case m.ID != id:
			continue
		case m.Error != nil:
			return errors.New(m.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	}
}

// read reads one message and updates the page's state from it.
func (p *Page) read(ctx context.Context) (m message, err error) {
	_, b, err := p.conn.Read(ctx)
	if err != nil {
		return m, fmt.Errorf("the browser is gone: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, err
	}
	switch m.Method {
	case "Page.loadEventFired":
		p.state.loaded++
	case "Page.frameNavigated":
		var e struct {
			Frame struct {
				Parent      string `json:"parentId"`
				Unreachable string `json:"unreachableUrl"`
			} `json:"frame"`
		}
		if json.Unmarshal(m.Params, &e) == nil && e.Frame.Parent == "" {
			p.state.failed = e.Frame.Unreachable
		}
	}
	return m, nil
}

// loaded waits until the page has loaded again.
func (p *Page) loaded(ctx context.Context, before int) error {
	for p.state.loaded == before {
		if _, err := p.read(ctx); err != nil {
			return err
		}
	}
	if p.state.failed != "" {
		return fmt.Errorf("the browser did not open %s", p.state.failed)
	}
	return nil
}

// Open navigates to an address and waits until it has loaded.
func (p *Page) Open(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, loads)
	defer cancel()
	var r struct {
		Error  string `json:"errorText"`
		Loader string `json:"loaderId"`
	}
	before := p.state.loaded
	if err := p.call(ctx, "Page.navigate", map[string]any{"url": address}, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return fmt.Errorf("the browser did not open %s: %s", address, r.Error)
	}
	if r.Loader == "" { // only the fragment changed
		return nil
	}
	return p.loaded(ctx, before)
}

// run evaluates a function in the page with arguments. A thrown value becomes the error.
func (p *Page) run(ctx context.Context, function string, args ...any) (string, error) {
	list, err := json.Marshal(append([]any{}, args...)) // never null
	if err != nil {
		return "", err
	}
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Thrown *struct {
			Text      string `json:"text"`
			Exception struct {
				Value any    `json:"value"`
				Text  string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err = p.call(ctx, "Runtime.evaluate", map[string]any{"expression": "(" + function + ")(..." + string(list) + ")", "returnByValue": true, "userGesture": true}, &r)
	switch {
	case err != nil:
		return "", err
	case r.Thrown != nil:
		if s, is := r.Thrown.Exception.Value.(string); is {
			return "", errors.New(s)
		}
		return "", errors.New(cmp.Or(r.Thrown.Exception.Text, r.Thrown.Text))
	}
	s, _ := r.Result.Value.(string)
	return s, nil
}

// Fill sets the value of a form field by its name, like a user typing it.
func (p *Page) Fill(ctx context.Context, name, value string) error {
	_, err := p.run(ctx, fill, name, value)
	return err
}

const fill = `(name, value) => {
  const all = [...document.querySelectorAll("input, select, textarea")].filter(e => e.name && e.type !== "hidden");
  const found = all.filter(e => e.name === name);
  if (found.length === 0) throw "no field is named " + name + "; there are: " + [...new Set(all.map(e => e.name))].join(", ");
  let e = found[0];
  if (e.type === "file") throw "the field " + name + " takes a file, and files cannot be uploaded";
  e.focus();
  if (e.type === "radio") {
    e = found.find(r => r.value === value);
    if (!e) throw "the field " + name + " has no choice " + value;
    e.checked = true;
  } else if (e.type === "checkbox") {
    e.checked = !["", "no", "false", "off"].includes(value.toLowerCase());
  } else if (e.tagName === "SELECT") {
    const o = [...e.options].find(o => o.value === value || o.text.trim() === value);
    if (!o) throw "the field " + name + " has no choice " + value;
    e.value = o.value;
  } else {
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(e), "value").set.call(e, value);
  }
  e.dispatchEvent(new Event("input", {bubbles: true}));
  e.dispatchEvent(new Event("change", {bubbles: true}));
  return "";
}`

// Submit submits the form that has the field, or the page's only form if field is "". It waits
// briefly for the page that answers.
func (p *Page) Submit(ctx context.Context, field string) error {
	before := p.state.loaded
	if _, err := p.run(ctx, submit, field); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	err := p.loaded(wait, before)
	if wait.Err() != nil && ctx.Err() == nil {
		return nil // the page answered without loading another page, or not at all: use its current state
	}
	return err
}

const submit = `(field) => {
  const e = field ? [...document.querySelectorAll("input, select, textarea, button")].find(e => e.name === field) : null;
  const form = field ? e && e.form : document.forms.length === 1 ? document.forms[0] : null;
  if (!form) throw field ? "no form has a field " + field : "the page has " + document.forms.length + " forms: name a field of one";
  if (!form.checkValidity()) throw "the form is not complete: " + [...form.elements].filter(e => !e.checkValidity()).map(e => e.name).join(", ");
  form.requestSubmit();
  return "";
}`

// Text returns the visible text of the page, after its address and title.
func (p *Page) Text(ctx context.Context) (string, error) {
	return p.run(ctx, `() => location.href + "\n" + document.title + "\n\n" + (document.body ? document.body.innerText : "") + "\n"`)
}

// DOM returns the current document as HTML.
func (p *Page) DOM(ctx context.Context) (string, error) {
	return p.run(ctx, `() => document.documentElement.outerHTML + "\n"`)
}
