//go:debug containermaxprocs=0

// Command attack performs one harmful action on its machine: attack NAME ARGS. The tests of
// sandboxes build it and run it in sandboxes and in isolated cells. It prints what it reached. If
// it is stopped, it writes the reason to stderr and exits with status 3. If something must be
// inspected from outside, it prints HOLD and continues after a line on stdin.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// deeds are the attacks by name.
var deeds = map[string]func(args []string) error{}

// learn registers attacks; each file has its own.
func learn(d map[string]func(args []string) error) bool {
	for name, deed := range d {
		if deeds[name] != nil {
			panic("two attacks are called " + name)
		}
		deeds[name] = deed
	}
	return true
}

func main() {
	if len(os.Args) < 2 || deeds[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "attack:", strings.Join(slices.Sorted(maps.Keys(deeds)), " "))
		os.Exit(2)
	}
	if err := deeds[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		os.Exit(3)
	}
}

var stdin = bufio.NewReader(os.Stdin)

// hold pauses this process for inspection from outside.
func hold() {
	fmt.Println("HOLD")
	_, _ = stdin.ReadString('\n')
}

// holding returns an attack that calls hold at its end.
func holding(deed func(a []string) error) func([]string) error {
	return func(a []string) error {
		err := deed(a)
		if err == nil {
			hold()
		}
		return err
	}
}

// anyOf tries each element of a list until one works.
func anyOf(list []string, try func(string) error) error {
	var errs []error
	for _, s := range list {
		err := try(s)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
