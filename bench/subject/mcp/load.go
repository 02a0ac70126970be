package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/bench/subject"
)

// kind is what the clients of one load are to the server.
type kind struct {
	name    string
	tokens  int    // principals; 0: no token is asked for
	version string // of the protocol
}

// kinds are the sessions that the server knows.
var kinds = []kind{
	{"nobody: each call stands alone, " + newest, 0, newest},
	{"8 principals, " + newest, 8, newest},
	{"a session for each client, " + older, 0, older},
}

// loads puts each kind of clients on a server of its own.
func loads(ctx context.Context, cli, dir, home string, d time.Duration, clients int) (all []subject.Load, err error) {
	for i, k := range kinds {
		l, err := load(ctx, k, cli, dir, filepath.Join(home, strconv.Itoa(i)), d, clients)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		all = append(all, l)
	}
	return all, nil
}

func token(i int) string { return fmt.Sprintf("token-of-principal-%04d", i) }

// process is a server and how much memory it has.
type process struct {
	*exec.Cmd
	url    string
	said   strings.Builder // on standard error, besides where it is; read once it ended
	ended  chan struct{}
	memory []int64 // bytes, ten times a second
}

func serve(ctx context.Context, k kind, cli, dir, home string) (*process, error) {
	if err := os.MkdirAll(filepath.Join(home, "work"), 0o755); err != nil {
		return nil, err
	}
	args := []string{"mcp", "--http", "127.0.0.1:0", "--skills-root", dir}
	if k.tokens > 0 {
		var lines strings.Builder
		for i := range k.tokens {
			fmt.Fprintf(&lines, "principal%d %s\n", i, token(i))
		}
		file := filepath.Join(home, "tokens")
		if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--token-file", file)
	}
	p := &process{Cmd: exec.CommandContext(ctx, cli, args...), ended: make(chan struct{})}
	p.Dir = filepath.Join(home, "work")
	p.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home)
	stderr, err := p.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(stderr)
	line, _ := lines.ReadString('\n') // the end of it is told below
	var is bool
	if p.url, is = strings.CutPrefix(strings.TrimSpace(line), "serving skills at "); !is {
		rest, _ := io.ReadAll(lines)
		return nil, errors.Join(fmt.Errorf("it says %q", line+string(rest)), p.Wait())
	}
	go func() { defer close(p.ended); _, _ = io.Copy(&p.said, lines) }()
	return p, nil
}

// watch notes the memory of the process until ctx ends.
func (p *process) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid)) // absent elsewhere than on Linux
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		kb := int64(0)
		_, _ = fmt.Sscan(rest, &kb)
		p.memory = append(p.memory, kb<<10)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (p *process) stop() error {
	_ = p.Process.Signal(os.Interrupt)
	<-p.ended
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%w: %.2000s", err, p.said.String())
	}
	return nil
}

// truth is what the files of the skills are, by their path in the folder.
type truth map[string]fact

type fact struct {
	digest string
	size   int64
}

func truthOf(dir string) (truth, error) {
	out := truth{}
	return out, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		sum := sha256.Sum256(b)
		out[filepath.ToSlash(rel)] = fact{"sha256:" + hex.EncodeToString(sum[:]), int64(len(b))}
		return err
	})
}

// of is what the file at an address is: below the label of its source stands
// its path, since no name has a character that addresses escape.
func (t truth) of(uri string) fact {
	_, path, _ := strings.Cut(strings.TrimPrefix(uri, "skill://"), "/")
	return t[path]
}

// bearer sends a token with each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// load is one server under load.
func load(ctx context.Context, k kind, cli, dir, home string, d time.Duration, clients int) (_ subject.Load, err error) {
	files, err := truthOf(dir)
	if err != nil {
		return subject.Load{}, err
	}
	p, err := serve(ctx, k, cli, dir, home)
	if err != nil {
		return subject.Load{}, err
	}
	down := sync.OnceValue(p.stop)
	defer func() { err = errors.Join(err, down()) }()
	out := subject.Load{Name: k.name, Clients: clients}
	var calls, lost atomic.Int64
	var first atomic.Pointer[string]
	net := &http.Transport{MaxIdleConnsPerHost: 2 * clients, MaxIdleConns: 2 * clients}
	defer net.CloseIdleConnections()
	var begin time.Time
	var warm, wg sync.WaitGroup
	warm.Add(clients)
	start := make(chan struct{})
	for i := range clients {
		wg.Go(func() {
			tok := ""
			if k.tokens > 0 {
				tok = token(i % k.tokens)
			}
			ready := sync.OnceFunc(warm.Done)
			defer ready()
			c, err := connect(ctx, &mcp.StreamableClientTransport{Endpoint: p.url, HTTPClient: &http.Client{Transport: bearer{tok, net}}}, k.version)
			if err == nil {
				defer c.Close()
				w := worker{c, files, rand.New(rand.NewPCG(3, uint64(i))), &calls, &lost}
				err = w.work(ctx, func() { ready(); <-start }, func() bool { return time.Since(begin) < d && ctx.Err() == nil })
			}
			if err != nil {
				lost.CompareAndSwap(0, 1) // one that could not even connect
				text := err.Error()
				first.CompareAndSwap(nil, &text)
			}
		})
	}
	warm.Wait()
	watching, enough := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); p.watch(watching) }()
	begin = time.Now()
	close(start)
	wg.Wait()
	out.Seconds, out.Calls, out.Lost = time.Since(begin).Seconds(), calls.Load(), lost.Load()
	enough()
	<-watched
	out.Early, out.Late = around(p.memory, 50), around(p.memory, len(p.memory)-5)
	if f := first.Load(); f != nil {
		out.Error = *f
	}
	if err := down(); err != nil {
		return out, nil
	}
	out.Folders, out.Disk, err = weigh(filepath.Join(home, "work", ".metier", "runs"))
	return out, err
}

// around is the middle of the second around a place.
func around(v []int64, at int) int64 {
	v = slices.Sorted(slices.Values(v[min(max(at-5, 0), len(v)):min(at+5, len(v))]))
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}

// weigh counts the records in a folder and their bytes.
func weigh(dir string) (folders int, bytes int64, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	return len(list), bytes, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
}

// worker is one client at work.
type worker struct {
	c           *mcp.ClientSession
	files       truth
	r           *rand.Rand
	calls, lost *atomic.Int64
}

// warmCalls are made by each client before the clock starts, so that what is
// kept for a session, such as the newest entries of its log, is there.
const warmCalls = 20

// work makes calls of all kinds and looks at every answer, once it is ready and
// until it is told to stop. What is wrong with the first bad one is the error.
func (w worker) work(ctx context.Context, ready func(), more func() bool) (bad error) {
	tally := func(err error) {
		w.calls.Add(1)
		if err != nil {
			w.lost.Add(1)
			bad = errors.Join(err, bad)
		}
	}
	known, err := listed(ctx, w.c, w.files)
	if tally(err); err != nil {
		return err
	}
	mine := w.r.IntN(len(known))
	for n := 0; bad == nil; n++ {
		if n == warmCalls {
			ready()
		}
		if n >= warmCalls && !more() {
			break
		}
		e := known[w.r.IntN(len(known))]
		switch n := w.r.IntN(100); {
		case n < 2:
			_, err = listed(ctx, w.c, w.files)
		case n < 22:
			err = got(ctx, w.c, w.files, e)
		case n < 62:
			err = read(ctx, w.c, w.files, e.Resources[w.r.IntN(len(e.Resources))])
		default: // a client works with a few skills
			err = loaded(ctx, w.c, w.files, known[(mine+w.r.IntN(3))%len(known)])
		}
		tally(err)
	}
	return bad
}

// listed reads the first page of skills/list.
func listed(ctx context.Context, c *mcp.ClientSession, files truth) (all []*entry, err error) {
	r, err := mcp.CallCustomMethod[*listParams, *unread](ctx, c, "skills/list", &listParams{})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(r.Skills, &all); err != nil {
		return nil, err
	}
	for _, e := range all {
		if err := entryFits(e, files); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("skills/list: no skills")
	}
	return all, nil
}

func entryFits(e *entry, files truth) error {
	if len(e.Resources) != 4 {
		return fmt.Errorf("%s has %d files", e.URI, len(e.Resources))
	}
	for _, f := range e.Resources {
		if want := files.of(f.URI); f.Digest != want.digest || f.Size != want.size {
			return fmt.Errorf("%s: the entry says %s, the file is %s", f.URI, f.Digest, want.digest)
		}
	}
	return nil
}

func got(ctx context.Context, c *mcp.ClientSession, files truth, e *entry) error {
	r, err := mcp.CallCustomMethod[*uriParams, *getResult](ctx, c, "skills/get", &uriParams{URI: e.URI})
	if err == nil && r.Skill.URI != e.URI {
		err = fmt.Errorf("skills/get %s answers with %s", e.URI, r.Skill.URI)
	}
	if err != nil {
		return err
	}
	return entryFits(&r.Skill, files)
}

func read(ctx context.Context, c *mcp.ClientSession, files truth, f file) error {
	r, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: f.URI})
	if err != nil {
		return fmt.Errorf("%s: %w", f.URI, err)
	}
	if len(r.Contents) != 1 {
		return fmt.Errorf("%s: %d contents", f.URI, len(r.Contents))
	}
	b := []byte(r.Contents[0].Text + string(r.Contents[0].Blob))
	sum := sha256.Sum256(b)
	if got, want := "sha256:"+hex.EncodeToString(sum[:]), files.of(f.URI); got != want.digest || int64(len(b)) != want.size {
		return fmt.Errorf("%s: %d bytes of %s, the file has %d of %s", f.URI, len(b), got, want.size, want.digest)
	}
	return nil
}

func loaded(ctx context.Context, c *mcp.ClientSession, files truth, e *entry) error {
	name := strings.Split(strings.TrimSuffix(e.URI, "/SKILL.md"), "/")
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": name[len(name)-1]}})
	if err != nil {
		return err
	}
	data, _ := r.Meta["metier/detail"].(map[string]any)
	if r.IsError || data["hash"] != files.of(e.URI).digest {
		b, _ := json.Marshal(r)
		return fmt.Errorf("load_skill %s: %.300s", e.URI, b)
	}
	return nil
}
