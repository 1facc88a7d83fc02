// SPDX-License-Identifier: Apache-2.0

// Package attack holds what was done to running nodes by clients that mean harm or are broken: each attack is a
// program against a process of its own, with a memory budget of 512 MiB, while neighbours do their work.
//
// After every attack the same is checked: the process has stayed below 1.25 times its budget and has not died or
// panicked; every answer that a neighbour got was right; every write that was acknowledged is there. The time of the
// neighbours' requests is reported, and bounded only with -long, which is for a quiet machine and attacks for longer.
//
//	go test ./test/attack                              seconds each
//	go test ./test/attack -run TestUnread -long -v     minutes each
package attack
