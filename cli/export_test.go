package cli

import (
	"context"
	"time"

	"metier/fetch"
	"metier/internal/egress"
	"metier/internal/rootfile"
)

// MainNoWait is Main without the waits between tries of a model call.
func MainNoWait(ctx context.Context, args, env []string, std IO) int {
	a := newApp(env, std)
	a.after = noWait
	return a.main(ctx, args)
}

// MainOrg is Main on a machine whose administrator keeps skills in a folder.
func MainOrg(ctx context.Context, org string, args, env []string, std IO) int {
	a := newApp(env, std)
	a.org = org
	return a.main(ctx, args)
}

// MainReaching is MainNoWait on a machine where proxy creates the proxy of
// programs, so that a test can stand in for the Internet.
func MainReaching(ctx context.Context, args, env []string, std IO, proxy func(egress.Rules) (*egress.Proxy, error)) int {
	a := newApp(env, std)
	a.after, a.egress = noWait, proxy
	return a.main(ctx, args)
}

// MainOnline is Main with its own Internet.
func MainOnline(ctx context.Context, o fetch.Options, args, env []string, std IO) int {
	a := newApp(env, std)
	a.web = o
	return a.main(ctx, args)
}

// MainAt is MainNoWait at a given time.
func MainAt(ctx context.Context, now func() time.Time, args, env []string, std IO) int {
	a := newApp(env, std)
	a.after, a.now = noWait, now
	return a.main(ctx, args)
}

func noWait(time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	ch <- time.Time{}
	return ch
}

// MainHaving is Main on a machine that has exactly the programs for which has
// returns true.
func MainHaving(ctx context.Context, args, env []string, std IO, has func(program string) bool) int {
	a := newApp(env, std)
	a.has = has
	return a.main(ctx, args)
}

// Rewrite replaces a file if its content did not change; otherwise it returns ErrChanged.
var (
	Rewrite    = rootfile.Replace
	ErrChanged = rootfile.ErrChanged
)
