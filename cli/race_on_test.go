//go:build race

package cli

// The race detector makes everything about ten times slower.
const manyRuns = 200
