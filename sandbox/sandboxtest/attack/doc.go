//go:debug containermaxprocs=0

// Command attack does one harm that a program could do to the machine it runs
// on: attack NAME ARGS. It is built and run by the tests of sandboxes, there
// and in cages of their own, and has no use elsewhere. What it reaches it prints;
// what stops it goes to stderr, with exit status 3. Where something has to be
// looked at from outside it prints HOLD and goes on after a line on stdin.
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

// learn adds attacks; each file brings its own.
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

// hold lets somebody look at this process from outside.
func hold() {
	fmt.Println("HOLD")
	_, _ = stdin.ReadString('\n')
}

// holding is a deed that holds once it is done.
func holding(deed func(a []string) error) func([]string) error {
	return func(a []string) error {
		err := deed(a)
		if err == nil {
			hold()
		}
		return err
	}
}

// anyOf tries each of a list until one works.
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
