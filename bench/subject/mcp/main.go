// Mcp measures the server of the Model Context Protocol: how long it takes to
// list skills beside a bare server of the protocol's library, and whether it
// holds under load. It prints its figures as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"
)

const usage = "usage: mcp list ROUNDS SKILLS, or mcp load METIER SKILLS HOME SECONDS CLIENTS"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out, err := run(ctx, os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (any, error) {
	number := func(i int) (n int) {
		if i < len(args) {
			n, _ = strconv.Atoi(args[i]) // 0 where it is none
		}
		return n
	}
	switch {
	case len(args) == 3 && args[0] == "list" && number(1) > 0:
		return race(ctx, args[2], number(1))
	case len(args) == 6 && args[0] == "load" && number(4) > 0 && number(5) > 0:
		return loads(ctx, args[1], args[2], args[3], time.Duration(number(4))*time.Second, number(5))
	}
	return nil, errors.New(usage)
}
