// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func dotAVX2(w *int16, code *byte, n int) int32
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ  w+0(FP), SI
	MOVQ  code+8(FP), DI
	MOVQ  n+16(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1

loop:
	VPMOVZXBW (DI), Y2
	VPMADDWD  (SI), Y2, Y2
	VPADDD    Y2, Y0, Y0
	VPMOVZXBW 16(DI), Y3
	VPMADDWD  32(SI), Y3, Y3
	VPADDD    Y3, Y1, Y1
	ADDQ      $32, DI
	ADDQ      $64, SI
	SUBQ      $32, CX
	JNZ       loop

	VPADDD       Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPADDD       X1, X0, X0
	VMOVD        X0, AX
	VZEROUPPER
	MOVL         AX, ret+24(FP)
	RET

// func dotFourAVX2(w *int16, codes *byte, stride, n int, out *[4]int32)
TEXT ·dotFourAVX2(SB), NOSPLIT, $0-40
	MOVQ  w+0(FP), SI
	MOVQ  codes+8(FP), DI
	MOVQ  stride+16(FP), DX
	MOVQ  n+24(FP), CX
	MOVQ  out+32(FP), R8
	LEAQ  (DX)(DX*2), R9
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3

four:
	VMOVDQU   (SI), Y8
	VPMOVZXBW (DI), Y4
	VPMADDWD  Y8, Y4, Y4
	VPADDD    Y4, Y0, Y0
	VPMOVZXBW (DI)(DX*1), Y5
	VPMADDWD  Y8, Y5, Y5
	VPADDD    Y5, Y1, Y1
	VPMOVZXBW (DI)(DX*2), Y6
	VPMADDWD  Y8, Y6, Y6
	VPADDD    Y6, Y2, Y2
	VPMOVZXBW (DI)(R9*1), Y7
	VPMADDWD  Y8, Y7, Y7
	VPADDD    Y7, Y3, Y3
	ADDQ      $32, SI
	ADDQ      $16, DI
	SUBQ      $16, CX
	JNZ       four

	VPHADDD      Y1, Y0, Y0
	VPHADDD      Y3, Y2, Y2
	VPHADDD      Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VMOVDQU      X0, (R8)
	VZEROUPPER
	RET
