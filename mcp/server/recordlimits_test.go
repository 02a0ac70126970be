package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/mcp/server"
	"metier/policy"
)

// strict is an embedder's tool that checks its arguments before a call.
type strict struct{ echo }

func (strict) Facts(_ context.Context, _ *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	var a struct {
		Text string `json:"text"`
		Many int    `json:"many"`
	}
	return metier.Facts{Request: policy.Request{Effect: policy.Read}}, metier.DecodeArgs(raw, &a)
}

// Arguments that only name something are short. Longer ones, and those of an invalid call, are
// refused, and the record has their size and digest instead.
func TestCall_RefusesLongArgumentsWithoutRecordingThem(t *testing.T) {
	t.Parallel()
	const size = 200_000
	long := strings.Repeat("x", size)
	digits := json.Number(strings.Repeat("1", size))
	for _, version := range []string{older, newest} {
		w := start(t, library, func(w *fixture) {
			w.tools = append(w.tools, strict{})
			w.options = func(o *server.Options) { o.Tools = map[string]string{"echo": "Echo"} }
		})
		c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], version, nil)
		key := server.Client{Principal: "ann"}
		if version == older {
			key = server.Client{Session: c.ID()}
		}
		type refused struct {
			tool string
			args map[string]any
			says string
		}
		calls := []refused{
			{"list_skills", map[string]any{"after": long}, `field "after" is too long`},
			{"search_skills", map[string]any{"query": long}, `field "query" is too long`},
			{"load_skill", map[string]any{"name": long}, `field "name" is too long`},
			{"load_skill", map[string]any{"name": "guide", long: 1}, `field "xxx`},
			{"read_skill_resource", map[string]any{"skill": "guide", "path": long}, `field "path" is too long`},
			{"echo", map[string]any{"other": long}, `unknown field "other"`},
		}
		if version == older { // the library's client does not send such numbers in the newer revision
			calls = append(calls, refused{"load_skill", map[string]any{"name": "guide", "offset": digits}, `field "offset" is too long`},
				refused{"echo", map[string]any{"many": digits}, "cannot unmarshal number 111"})
		}
		for i, call := range calls {
			if said := said(c.call(call.tool, call.args)); !strings.HasPrefix(said, "invalid_arguments: ") || !strings.Contains(said, call.says) || len(said) > 1000 {
				t.Errorf("%s %s: %.1000s", version, call.tool, said)
			}
			raw, _ := json.Marshal(call.args)
			want := fmt.Sprintf(`{"omitted":{"bytes":%d,"digest":"%s"}}`, len(raw), digest.Bytes(raw))
			decided := events[event.PolicyDecided](w, key)
			b, err := w.logs[key][0].Open(t.Context(), decided[i].Args)
			if diff := cmp.Diff(want, string(b)); err != nil || diff != "" {
				t.Errorf("%s %s is recorded as (-want +got):\n%.500s%v", version, call.tool, diff, err)
			}
		}
		if said := said(c.call("echo", map[string]any{"text": long})); said != long {
			t.Errorf("%s: text that a tool takes is answered with %.200s", version, said)
		}
	}
}

// logged is a log that a test reads while the server writes it.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// writing serves a tool that records what its caller sends.
func writing(log *logged, change func(*server.Options)) func(*fixture) {
	return func(w *fixture) {
		w.tools = append(w.tools, echo{})
		w.options = func(o *server.Options) {
			o.Tools, o.Logger = map[string]string{"echo": "Echo"}, slog.New(slog.NewTextHandler(log, nil))
			change(o)
		}
	}
}

// writes makes one call that records more than 20 KB.
func (c *client) writes(i int) error {
	_, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": strings.Repeat(strconv.Itoa(i%10), 10_000)}})
	return err
}

// When the record of a session is full, the session ends, and the client opens another. The
// sessions of others continue.
func TestSession_EndsWhenItsRecordIsFull(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", tokens["ann"]} {
		log := &logged{}
		w := start(t, library, writing(log, func(o *server.Options) { o.SessionRecord = 100_000 }))
		access := server.Access{}
		if token != "" {
			access.Tokens = tokens
		}
		h := w.http(access)
		other := w.over(h, token, older, nil)
		if err := other.writes(0); err != nil {
			t.Error(err)
		}
		c := w.over(h, token, older, nil)
		n, err := 0, error(nil)
		for ; n < 20 && err == nil; n++ {
			err = c.writes(n)
		}
		if n < 4 || n > 6 || err == nil || !strings.Contains(err.Error(), "record_full: ") || !strings.Contains(err.Error(), "open a new session") {
			t.Errorf("call %d: %v", n, err)
		}
		if ended := <-w.ends; ended.Session != c.ID() {
			t.Errorf("%+v has ended, not %s", ended, c.ID())
		}
		if err := c.writes(0); err == nil {
			t.Error("the session continues")
		}
		if got := log.count("record_full"); got != 1 {
			t.Errorf("%d lines in the log", got)
		}
		for _, c := range []*client{other, w.over(h, token, older, nil)} {
			if err := c.writes(1); err != nil {
				t.Error(err)
			}
		}
	}
}

// In the newer revision, a principal's full session is replaced. Over stdio, the client is the
// user's own program, and its session has no such limit.
func TestSession_IsReplacedWhenAPrincipalsRecordIsFull(t *testing.T) {
	t.Parallel()
	w := start(t, library, writing(&logged{}, func(o *server.Options) { o.SessionRecord, o.PrincipalRecords = 100_000, 1_000_000 }))
	c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], newest, nil)
	for i := range 12 {
		if err := c.writes(i); err != nil {
			t.Error(err)
		}
	}
	if n := len(w.logs[server.Client{Principal: "ann"}]); n < 2 || n > 4 {
		t.Errorf("%d records", n)
	}
	own := w.stdio(nil)
	for i := range 60 {
		if err := own.writes(i); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.logs[process]); n != 1 {
		t.Errorf("%d records over stdio", n)
	}
}

// The memory of a session is free once a new one has replaced it.
func TestSession_IsFreedWhenItIsReplaced(t *testing.T) {
	t.Parallel()
	w := start(t, library, writing(&logged{}, func(o *server.Options) { o.SessionRecord, o.PrincipalRecords = 20_000, 10_000_000 }))
	c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], newest, nil)
	const calls = 20 // each fills a record
	for i := range calls {
		if err := c.writes(i); err != nil {
			t.Fatal(err)
		}
	}
	for range calls - 1 {
		<-w.ends
	}
	live := func() (n int) {
		runtime.GC()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range w.kept {
			if s.Value() != nil {
				n++
			}
		}
		return n
	}
	const expected = 2 // the server's own, and the principal's
	n := live()
	for try := 0; n > expected && try < 1000; try++ { // the last ones may still be closing
		n = live()
	}
	if opened := len(w.kept); n != expected || opened != calls+1 {
		t.Errorf("%d of %d sessions are in memory", n, opened)
	}
	runtime.KeepAlive(w)
}

// A principal's session ends after an hour without a call, also if the server does not look for
// changed skills.
func TestSession_IsReplacedWhenAPrincipalWasIdle(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	w := start(t, library, writing(&logged{}, func(o *server.Options) {
		o.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(late.Load())) }
	}))
	c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], newest, nil)
	for i, after := range []time.Duration{0, 59 * time.Minute, 118 * time.Minute, 180 * time.Minute} {
		late.Store(int64(after))
		if err := c.writes(i); err != nil {
			t.Error(err)
		}
	}
	if n := len(w.logs[server.Client{Principal: "ann"}]); n != 2 {
		t.Errorf("%d records", n)
	}
}

// A principal can write so much in a day, in any number of sessions of any revision. Opening a
// session counts. Others are not affected, and the limit ends with the day.
func TestPrincipal_HasADailyLimit(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	log := &logged{}
	w := start(t, library, writing(log, func(o *server.Options) {
		o.SessionRecord, o.PrincipalRecords = 70_000, 300_000
		o.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(late.Load())) }
	}))
	h := w.http(server.Access{Tokens: tokens})
	full := func(err error) bool { return err != nil && strings.Contains(err.Error(), "try again tomorrow") }
	n, err := 0, error(nil)
	for ; n < 40 && !full(err); n++ {
		err = w.over(h, tokens["ann"], []string{older, newest}[n%2], nil).writes(n)
		if err != nil && !full(err) {
			t.Fatal(err)
		}
	}
	if n < 5 || n > 15 {
		t.Errorf("call %d: %v", n, err)
	}
	ann, bob := w.over(h, tokens["ann"], newest, nil), w.over(h, tokens["bob"], newest, nil)
	records := 0
	for _, logs := range w.logs {
		records += len(logs)
	}
	if _, err := ann.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://project/guide/SKILL.md"}); !full(err) {
		t.Error(err)
	}
	if _, err := ann.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "hello"}); !full(err) {
		t.Error(err)
	}
	if err := w.over(h, tokens["ann"], older, nil).writes(0); !full(err) {
		t.Error(err)
	}
	after := 0
	for _, logs := range w.logs {
		after += len(logs)
	}
	if diff := cmp.Diff(records, after); diff != "" {
		t.Errorf("records (-before +after):\n%s", diff)
	}
	if got := log.count("until the 24 hours are over"); got != 1 {
		t.Errorf("%d lines in the log", got)
	}
	if err := bob.writes(0); err != nil {
		t.Error(err)
	}
	late.Store(int64(24 * time.Hour))
	if err := ann.writes(0); err != nil {
		t.Error(err)
	}
}

// The folder of a record counts, and so does each session.
func TestPrincipal_OpensALimitedNumberOfSessionsADay(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	log := &logged{}
	w := start(t, library, writing(log, func(o *server.Options) {
		o.PrincipalSessions = 3
		o.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(late.Load())) }
	}))
	h := w.http(server.Access{Tokens: tokens})
	open := w.over(h, tokens["ann"], older, nil)
	for range 2 {
		if err := open.writes(0); err != nil { // one session
			t.Error(err)
		}
	}
	for i := range 4 {
		err := w.over(h, tokens["ann"], older, nil).writes(0)
		if refused := err != nil && strings.Contains(err.Error(), "record_full: this client has opened as many sessions"); refused != (i >= 2) {
			t.Errorf("session %d: %v", i+2, err)
		}
	}
	for _, c := range []*client{open, w.over(h, tokens["bob"], older, nil)} {
		if err := c.writes(1); err != nil {
			t.Error(err)
		}
	}
	if got := log.count("has opened 3 sessions"); got != 1 {
		t.Errorf("%d lines in the log", got)
	}
	late.Store(int64(24 * time.Hour))
	if err := w.over(h, tokens["ann"], older, nil).writes(0); err != nil {
		t.Error(err)
	}
}

func TestPrincipal_IsChargedForEachFolder(t *testing.T) {
	t.Parallel()
	w := start(t, library, writing(&logged{}, func(o *server.Options) { o.PrincipalRecords = 200_000 }))
	h := w.http(server.Access{Tokens: tokens})
	n, err := 0, error(nil)
	for ; n < 20 && err == nil; n++ {
		_, err = w.over(h, tokens["ann"], older, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "short"}})
	}
	if n < 4 || n > 7 || err == nil || !strings.Contains(err.Error(), "try again tomorrow") {
		t.Errorf("session %d: %v", n, err)
	}
}

// Arguments count each time they are sent. The record has them once, but its artifacts repeat them.
func TestSession_CountsRepeatedArguments(t *testing.T) {
	t.Parallel()
	w := start(t, library, writing(&logged{}, func(o *server.Options) { o.SessionRecord = 100_000 }))
	c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], older, nil)
	n, err := 0, error(nil)
	for ; n < 20 && err == nil; n++ {
		_, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": strings.Repeat("x", 15_000)}})
	}
	if n < 6 || n > 8 || err == nil || !strings.Contains(err.Error(), "record_full: ") {
		t.Errorf("call %d: %v", n, err)
	}
}

// New skills are recorded in every session, but not at the expense of its client.
func TestRefresh_DoesNotCountTowardLimits(t *testing.T) {
	t.Parallel()
	w := start(t, library, writing(&logged{}, func(o *server.Options) { o.SessionRecord, o.PrincipalRecords = 40_000, 80_000 }))
	c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], older, nil)
	c.call("list_skills", nil)
	for i := range 20 {
		w.put("more/SKILL.md", skill("more", "Number "+strconv.Itoa(i)+strings.Repeat(" more", 180)+".", "More."))
		if err := w.server.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.call("list_skills", nil)
	if n := len(events[event.SkillsDiscovered](w, server.Client{Session: c.ID()})); n != 21 {
		t.Errorf("%d lists of skills are recorded", n)
	}
	c.call("list_skills", nil)
}
