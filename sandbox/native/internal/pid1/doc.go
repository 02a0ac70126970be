// Package pid1 is the first process of a sandbox. It only needs to be imported: if the program was
// started as a first process, package initialization builds the sandbox, runs the one program in
// it, and never returns. If it was started as a starter, initialization starts first processes for
// its parent instead.
//
// The package imports little more than syscall, so that Go initializes it before almost everything
// else in the embedding program. Starting a sandbox does not pay for other initialization in a
// large program.
//
// Every step has a name. If a step fails, its name is reported, and the job has had no effects.
package pid1
