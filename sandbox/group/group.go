// Package group starts a program as the leader of a process group, so that its child processes end
// with it.
package group
