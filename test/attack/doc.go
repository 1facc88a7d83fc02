// SPDX-License-Identifier: Apache-2.0

// Package attack holds what was done to running nodes by clients that mean harm or are broken: each attack is a
// program against a process of its own, with a memory budget of 512 MiB, while neighbours do their work.
//
// After every attack the same is checked: the process has stayed below 1.25 times its budget and has not died or
// panicked; every answer that a neighbour got was right; every write that was acknowledged is there. The time of the
// neighbours' requests is reported: on a quiet machine 99 of 100 take less than 100 ms. With -long attacks go on for
// longer.
//
// TestEvaluation has a process with a budget of 256 MiB, and clients that may only read. Each request may raise the
// resident memory by a quarter of the budget and take five seconds of a processor; many at once may raise it by 1.25
// times the budget. What the process takes without any request is not counted. With -long it sends all attacks that
// generator_test.go makes, and prints a table of them.
//
// Which point of the examination is proven where:
//
//	A1   TestNoDescriptors, TestStrangers; of the internal address: test/process TestStrangers
//	A2   TestCheckpoints
//	A3   TestPrepares, TestDeadlines, TestTypeBomb
//	A4   TestFlippedManifest; damage of other files: test/crash TestDamage
//	A5   TestWrongPasswords
//	A6   TestUninvited; certificates of others: test/process TestMutualTLS
//	A7   TestOrdersOfStrangers
//	A8   TestUnreadPages, TestPartialFrames
//	A10  TestDeadlines; with a clock of its own: query/read TestDeadline
//	A11  TestCertificates
//	S8, S9  TestEvaluation
//
//	go test ./test/attack                              seconds each
//	go test ./test/attack -run TestUnread -long -v     minutes each
package attack
