// Command pagehand works with one page of a browser on this machine, for the
// scripts of the skill agent-browser. It is a stand-in, small on purpose, for
// programs that do more.
//
//	pagehand [--cdp ENDPOINT] open ADDRESS
//	pagehand [--cdp ENDPOINT] fill NAME VALUE | fill NAME --env VARIABLE
//	pagehand [--cdp ENDPOINT] submit [FIELD]
//	pagehand [--cdp ENDPOINT] text | dom
//
// The endpoint is otherwise in AGENT_BROWSER_CDP, and always local. pagehand
// ends with 2 where it was asked wrongly, and with 1 where the page did not do
// it. It reads and writes no file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"metier/browser/page"
)

// most is how long one command may take.
const most = time.Minute

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

var errUsage = errors.New("write it as: pagehand [--cdp http://127.0.0.1:PORT] open ADDRESS | fill NAME VALUE | fill NAME --env VARIABLE | submit [FIELD] | text | dom")

func run(args []string, env func(string) string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := do(ctx, args, env, out)
	if err == nil {
		return 0
	}
	fmt.Fprintln(errs, "pagehand:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

func do(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	endpoint := env("AGENT_BROWSER_CDP")
	if len(args) > 0 {
		if v, ok := strings.CutPrefix(args[0], "--cdp="); ok {
			endpoint, args = v, args[1:]
		} else if args[0] == "--cdp" && len(args) > 1 {
			endpoint, args = args[1], args[2:]
		}
	}
	if endpoint == "" {
		return fmt.Errorf("no endpoint of a browser is given, by --cdp or AGENT_BROWSER_CDP; %w", errUsage)
	}
	act, err := action(args, env)
	if err != nil {
		return err
	}
	p, err := page.Connect(ctx, endpoint)
	if err != nil {
		return err
	}
	defer p.Close()
	text, err := act(ctx, p)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// action reads a command.
func action(args []string, env func(string) string) (func(context.Context, *page.Page) (string, error), error) {
	if len(args) == 0 {
		return nil, errUsage
	}
	quiet := func(f func(context.Context, *page.Page) error) func(context.Context, *page.Page) (string, error) {
		return func(ctx context.Context, p *page.Page) (string, error) { return "", f(ctx, p) }
	}
	switch name, rest := args[0], args[1:]; {
	case name == "open" && len(rest) == 1:
		return quiet(func(ctx context.Context, p *page.Page) error { return p.Open(ctx, rest[0]) }), nil
	case name == "fill" && len(rest) == 3 && rest[1] == "--env":
		v := env(rest[2])
		if v == "" {
			return nil, fmt.Errorf("the variable %s is not set: this page needs credentials that were not granted", rest[2])
		}
		return quiet(func(ctx context.Context, p *page.Page) error { return p.Fill(ctx, rest[0], v) }), nil
	case name == "fill" && len(rest) == 2:
		return quiet(func(ctx context.Context, p *page.Page) error { return p.Fill(ctx, rest[0], rest[1]) }), nil
	case name == "submit" && len(rest) < 2:
		return quiet(func(ctx context.Context, p *page.Page) error { return p.Submit(ctx, strings.Join(rest, "")) }), nil
	case name == "text" && len(rest) == 0:
		return func(ctx context.Context, p *page.Page) (string, error) { return p.Text(ctx) }, nil
	case name == "dom" && len(rest) == 0:
		return func(ctx context.Context, p *page.Page) (string, error) { return p.DOM(ctx) }, nil
	}
	return nil, errUsage
}
