package main

func foreignWrite(fd int32, addr, n uint32) int32
