// Bench measures metier beside a floor and its peers, in one run, and writes
// one table of ratios.
//
// Every figure comes from a fresh process that does one piece of work once:
// a subject. Floors are the same system calls without any meaning, peers are
// other loaders of skills, called by their own packages. The rounds of all
// subjects are interleaved, so that a slow moment of the machine hits all of
// them, and medians are compared. The page cache is warm: files are read once
// before. It is a module of its own because the peers are large.
//
// Launches in the sandbox are a part of the page of their own: all contestants
// take turns in one process that is warm, since that is what runs scripts.
//
// A last part compares a piece of work with the same work, smaller: what grows
// faster than its work is found there. It goes through the engine, as a program
// does that embeds it.
package main
