//go:build race

package cli

// manyRuns is lower here because the race detector makes everything about ten times slower.
const manyRuns = 200
