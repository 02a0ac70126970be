// Package signals names signals as used in results: SIGKILL, or a number for signals without a
// name, such as real-time signals.
package signals
