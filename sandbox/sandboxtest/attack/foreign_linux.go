//go:build linux && !amd64

package main

// foreignWrite does nothing here: the processor has no other instruction set.
func foreignWrite(int32, uint32, uint32) int32 { return -38 }
