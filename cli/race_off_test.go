//go:build !race

package cli

// manyRuns is how many runs TestAThousandRunsAtOnce starts without -short.
const manyRuns = 1000
