// Hostclient is our host as the official conformance suite runs a client: it
// connects to the address it is given, lists the skills and, unless the
// scenario is about listing, loads each of them and reads the files it names.
// It is no part of metier.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"metier"
	"metier/mcp/host"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: hostclient URL")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], !strings.Contains(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "no-prefetch")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is what a session does with a server's skills.
func run(ctx context.Context, url string, load bool) error {
	h, err := host.Open(ctx, []host.Server{{Label: "suite", URL: url, Skills: true}}, nil)
	if err != nil {
		return err
	}
	defer h.Close()
	src := h.Source("suite")
	if src == nil {
		return fmt.Errorf("no skills: %v", h.Notes())
	}
	var failed error
	for head, err := range src.List(ctx) {
		switch {
		case err != nil:
			return err
		case head.Broken:
			failed = fmt.Errorf("%s: %v", head.Path, head.Diagnostics)
		case load:
			if err := whole(ctx, src, head.Path); err != nil {
				failed = err
			}
		}
	}
	return failed
}

// whole loads a skill and then reads its files, as long as each verifies.
func whole(ctx context.Context, src metier.Source, path string) error {
	b, err := src.Open(ctx, path)
	if err != nil {
		return err
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err != nil {
		return err
	}
	files := []string{"SKILL.md"}
	for _, f := range m.Files {
		if f.Path != "SKILL.md" {
			files = append(files, f.Path)
		}
	}
	for _, f := range files {
		r, err := b.Open(ctx, f)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, r)
		if err != nil {
			return err
		}
		fmt.Printf("%s %d bytes\n", f, n)
	}
	return nil
}
