//go:build !race

package cli

const manyRuns = 1000
