//go:build !race

package cli

// manyRuns is how many runs TestAThousandRunsAtOnce makes without -short.
const manyRuns = 1000
