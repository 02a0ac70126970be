// Package settings holds every behaviour on which the sources of this project disagree as a named value.
//
// It is data only: one struct per stage ([Discover], [Parse], …), one table with a row per setting ([Table]) and
// [Resolve], which lays values over each other and says who set each. A stage receives its own struct, compares a
// setting's value and never learns the name of a profile. A profile is a saved set of values ([Profile]).
//
// The values of a setting are ordered, narrowest first: a layer below the operator may only move a setting to the
// narrow end, so a file in a repository can never widen what is allowed.
package settings
