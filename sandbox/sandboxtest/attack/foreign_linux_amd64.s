#include "textflag.h"

// func foreignWrite(fd int32, addr uint32, n uint32) int32
// write(2) of i386, by its interrupt.
TEXT ·foreignWrite(SB), NOSPLIT, $0-20
	MOVL $4, AX
	MOVL fd+0(FP), BX
	MOVL addr+4(FP), CX
	MOVL n+8(FP), DX
	INT  $0x80
	MOVL AX, ret+16(FP)
	RET
