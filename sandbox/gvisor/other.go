//go:build !linux

package gvisor

import (
	"context"
	"runtime"

	"metier/sandbox"
)

func (*Sandbox) run(context.Context, sandbox.Job) (sandbox.Result, error) {
	return sandbox.Result{}, unavailable("platform", "this is "+runtime.GOOS, nil)
}
