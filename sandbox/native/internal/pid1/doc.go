// Package pid1 is the first process of a sandbox. Importing it is enough: where
// the program was started as one, its initialisation builds the sandbox, runs
// the one program in it, and never returns. Where the program was started as a
// starter, its initialisation starts first processes for its parent instead.
//
// It imports syscall and nothing else of weight, so that Go initialises it
// before nearly everything in the program that embeds it: the start of a sandbox
// does not pay for what a large program does before main.
//
// Every step has a name. A step that fails is reported by it, and nothing of
// the job has happened.
package pid1
