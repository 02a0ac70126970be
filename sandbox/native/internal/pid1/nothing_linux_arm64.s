#include "textflag.h"

TEXT nothing<>(SB), NOSPLIT|NOFRAME, $0
	RET

// func nothingAddress() uintptr
TEXT ·nothingAddress(SB), NOSPLIT, $0-8
	MOVD $nothing<>(SB), R0
	MOVD R0, ret+0(FP)
	RET
