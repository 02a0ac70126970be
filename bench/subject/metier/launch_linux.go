package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"metier/bench/subject"
	"metier/sandbox"
	"metier/sandbox/native"
)

// held is how many MB the process holds at a launch.
var held = []int{0, 200, 800}

// launch runs a program that does nothing n times for each size of memory that the
// process holds: all sizes take turns. Before each launch as much is written as clears the caches of
// the processor.
func launch(n int) subject.Case {
	return func(string, func()) (int, map[string]float64, error) { return launches(n) }
}

func launches(n int) (int, map[string]float64, error) {
	s, err := native.New(nil)
	if err != nil {
		return 0, nil, err
	}
	took := map[int][]time.Duration{}
	for round := range n + 3 { // the first ones fill caches
		for _, mb := range held {
			d, err := launchWith(s, mb)
			if err != nil {
				return 0, nil, errors.Join(err, s.Close())
			}
			if round >= 3 {
				took[mb] = append(took[mb], d)
			}
		}
	}
	figures := map[string]float64{}
	for mb, d := range took {
		figures[strconv.Itoa(mb)] = median(d)
	}
	return n, figures, s.Close()
}

func launchWith(s sandbox.Sandbox, mb int) (took time.Duration, err error) {
	const page, caches = 4 << 10, 64 << 20 // bytes
	memory, err := syscall.Mmap(-1, 0, caches+mb<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, syscall.Munmap(memory)) }()
	if err := syscall.Madvise(memory, syscall.MADV_NOHUGEPAGE); err != nil { // fewer pages would do
		return 0, err
	}
	for i := 0; i < len(memory); i += page {
		memory[i] = 1
	}
	if err := syscall.Madvise(memory[:caches], syscall.MADV_DONTNEED); err != nil {
		return 0, err
	}
	begin := time.Now()
	r, err := s.Run(context.Background(), sandbox.Job{Argv: []string{"/usr/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}})
	took = time.Since(begin)
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("it ended as %+v", r)
	}
	return took, err
}
