// Package signals names signals as results do: SIGKILL, or by number one that
// has no name, such as those for real-time use.
package signals
