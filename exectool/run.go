package exectool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"metier"
	"metier/event"
	"metier/internal/egress"
	"metier/internal/runtimes"
	"metier/record"
	"metier/sandbox"
	"metier/settings"
)

// runner runs programs with the options of one session.
type runner struct{ Options }

// onStdin reports whether a script's code is passed to its interpreter on standard input.
func (r *runner) onStdin() bool { return r.Exec.Stage == settings.StageStdin }

// longest returns the maximum time limit that a call may request.
func (r *runner) longest() time.Duration { return max(timeoutMost, r.Limits.Wall) }

// timeoutArg describes the argument timeoutMs.
func (r *runner) timeoutArg() map[string]any {
	return map[string]any{"type": "integer", "minimum": 1, "maximum": r.longest().Milliseconds(),
		"description": fmt.Sprintf("Maximum run time in milliseconds (default %d).", r.Limits.Wall.Milliseconds())}
}

// asked returns the limits that a call requests, capped at what is allowed.
func (r *runner) asked(ms *int) sandbox.Limits {
	switch most := r.longest(); {
	case ms == nil:
		return sandbox.Limits{}
	case int64(*ms) >= most.Milliseconds(): // also where the product would overflow
		return sandbox.Limits{Wall: most}
	}
	return sandbox.Limits{Wall: time.Duration(*ms) * time.Millisecond}
}

// Environment returns the base environment of every program. It includes no variables of this
// process.
func Environment() []string {
	return []string{"PATH=" + runtimes.SearchPath, "HOME=" + sandbox.ScratchDir, "TMPDIR=" + sandbox.ScratchDir, "LANG=C.UTF-8", "TERM=dumb"}
}

// reachable returns the network a program would get: a list of hosts, or all public ones.
func (r *runner) reachable() (hosts []string, public bool) {
	switch r.Exec.Network {
	case settings.NetworkOn:
		return nil, true
	case settings.NetworkTiered:
		hosts = slices.Clone(r.Hosts)
		slices.Sort(hosts)
		return slices.Compact(hosts), false
	}
	return nil, false
}

// hostNetwork is the network of a script on the host: that of the host.
const hostNetwork = "host"

// networkText returns the canonical form of a network, to which approvals are bound.
func networkText(hosts []string, public bool) string {
	switch {
	case public:
		return "any public host"
	case len(hosts) > 0:
		return "hosts: " + strings.Join(hosts, ", ")
	}
	return ""
}

// run runs a program and records in e what happened. p is the script, or nil for a command. An
// error with the code outcome_unknown means that it ran; any other, that nothing did.
func (r *runner) run(ctx context.Context, x *metier.ToolContext, j sandbox.Job, p *prepared, e *event.Execution) (sandbox.Result, error) {
	secrets, err := r.secrets(ctx, p)
	if err != nil {
		return sandbox.Result{}, err
	}
	host := p != nil && p.host
	j.Env = slices.Concat(r.environment(host), j.Env)
	for _, v := range secrets {
		j.Env = append(j.Env, v.Name+"="+v.Value)
	}
	j.Limits, j.MinLevel, j.Workspace = j.Limits.Or(r.Limits), r.least(host), r.workspace()
	end, endpoint, err := r.useBrowser(ctx, host)
	if err != nil {
		return sandbox.Result{}, err
	}
	clean := record.Redact(nil, slices.Concat(secrets, endpoint)...) // a backstop: what a program transforms gets by
	one := &sync.Mutex{}
	stdout, stderr := r.watch(x, one, "stdout", clean), r.watch(x, one, "stderr", clean)
	if r.Output != nil {
		j.Stdout, j.Stderr = stdout, stderr
	}
	var proxy *egress.Proxy
	if !host {
		if proxy, err = r.proxy(&j); err != nil {
			return sandbox.Result{}, err
		}
	}
	ran, err := r.box(host).Run(ctx, j)
	stdout.Close(ran.StdoutTruncated)
	stderr.Close(ran.StderrTruncated)
	if proxy != nil {
		proxy.Close()
		e.Hosts, e.Refused = hostUse(proxy.Used())
	}
	e.Hosts = append(e.Hosts, end()...)
	if err != nil {
		return ran, Failed(err)
	}
	ran.Stdout, ran.Stderr = cleaned(clean, ran.Stdout, ran.StdoutTruncated), cleaned(clean, ran.Stderr, ran.StderrTruncated)
	if err = r.ended(context.WithoutCancel(ctx), x, j, ran, e); host {
		e.Network = hostNetwork
	}
	if err != nil {
		err = Failed(&sandbox.Lost{Err: err})
	}
	return ran, err
}

// secrets returns the variables that the operator declared for a script's skill. On the host only a
// script with a grant gets them.
func (r *runner) secrets(ctx context.Context, p *prepared) ([]record.Secret, error) {
	if p == nil || r.Secrets == nil || p.host && !p.granted {
		return nil, nil
	}
	list, err := r.Secrets(ctx, p.skill)
	if err != nil {
		return nil, &metier.Error{Op: "run", Skill: p.skill.Name, Kind: metier.Unavailable, Code: "secret_unavailable", Err: err}
	}
	return list, nil
}

// proxy opens a program's only network access, if it has any.
func (r *runner) proxy(j *sandbox.Job) (*egress.Proxy, error) {
	hosts, public := r.reachable()
	if len(hosts) == 0 && !public {
		return nil, nil
	}
	token := rand.Text()
	proxy := egress.New
	if r.Egress != nil {
		proxy = r.Egress
	}
	p, err := proxy(egress.Rules{Hosts: hosts, Any: public, Token: token})
	if err != nil {
		return nil, &metier.Error{Op: "run", Kind: metier.Invalid, Code: "hosts_invalid", Err: err}
	}
	j.Serve = p.Serve
	j.Env = append(j.Env, egress.Environ(sandbox.ProxyAddr, token)...)
	return p, nil
}

func hostUse(used egress.Record) (hosts []event.HostUse, omitted int) {
	for _, h := range used.Hosts {
		hosts = append(hosts, event.HostUse{Host: h.Host, Port: int(h.Port), Method: h.Method, Code: string(h.Code), Requests: h.Requests, Addresses: h.Addresses, Sent: h.Up, Received: h.Down})
	}
	return hosts, used.Omitted
}

// cleaned returns output without secrets, and without the beginning of one where the output was
// cut.
func cleaned(clean *record.Redactor, b []byte, cut bool) []byte {
	b, _ = clean.Clean(b)
	if cut {
		b = b[:len(b)-clean.Begun(b)]
	}
	return b
}

// watch passes output on as it arrives, one piece at a time although the streams are read
// concurrently.
func (r *runner) watch(x *metier.ToolContext, one *sync.Mutex, stream string, clean *record.Redactor) *record.Stream {
	return clean.Stream(func(b []byte) {
		one.Lock()
		defer one.Unlock()
		r.Output(x.Call().ID, stream, b)
	})
}

// Failed describes an error of a sandbox. The code outcome_unknown means that the program started;
// with any other code, it did not.
func Failed(err error) error {
	e := &metier.Error{Op: "run", Kind: metier.Unavailable, Code: "sandbox_failed", Err: err}
	if lost, is := errors.AsType[*sandbox.Lost](err); is {
		e.Code, e.Err = "outcome_unknown", lost
	} else if u, is := errors.AsType[*sandbox.Unavailable](err); is {
		e.Code, e.Hint, e.Err = "sandbox_unavailable", u.Missing.Fix, errors.New(u.Reason())
	}
	return e
}

// target returns where a program runs, as recorded. Without isolation that is the host.
func target(l sandbox.Level) string {
	if l == sandbox.L0 {
		return "host"
	}
	return "sandbox"
}

// ended completes the record of a program that ran.
func (r *runner) ended(ctx context.Context, x *metier.ToolContext, j sandbox.Job, ran sandbox.Result, e *event.Execution) error {
	hosts, public := r.reachable()
	e.Call, e.Status, e.Target, e.Cwd, e.Backend, e.Level = x.Call().ID, "executed", target(ran.Level), j.Dir, ran.Backend, ran.Level.String()
	e.Network, e.Signal, e.Limit = networkText(hosts, public), ran.Signal, ran.Limit
	if ran.Signal == "" && ran.Limit == "" {
		e.Exit = &ran.Exit
	}
	l := j.Limits
	e.Bounds = event.Bounds{WallMS: l.Wall.Milliseconds(), CPUMS: l.CPU.Milliseconds(), Output: l.Output, Memory: l.Memory, Processes: l.Processes, FileSize: l.FileSize,
		Scratch: l.Scratch, ScratchFiles: l.ScratchFiles, OpenFiles: l.OpenFiles}
	e.StdoutTruncated, e.StderrTruncated, e.WallMS, e.CPUMS, e.MaxRSS, e.Notes = ran.StdoutTruncated, ran.StderrTruncated, ran.Wall.Milliseconds(), ran.CPU.Milliseconds(), ran.MaxRSS, ran.Notes
	argv, err := json.Marshal(j.Argv)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		to    *record.Ref
		media string
		b     []byte
	}{{&e.Argv, "application/json", argv}, {&e.Stdout, "application/octet-stream", ran.Stdout}, {&e.Stderr, "application/octet-stream", ran.Stderr}} {
		if *o.to, err = x.Put(ctx, o.media, o.b); err != nil {
			return err
		}
	}
	return nil
}
