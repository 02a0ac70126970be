// Package group starts a program as the head of a group of processes, so that
// what the program started ends with it.
package group
