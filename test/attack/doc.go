// SPDX-License-Identifier: Apache-2.0

// Package attack holds what was done to running nodes by clients that mean harm or are broken: each attack is a
// program against a process of its own, with a memory budget of 512 MiB, while neighbours do their work.
//
// After every attack the same is checked: the process has stayed below 1.25 times its budget and has not died or
// panicked; every answer that a neighbour got was right; every write that was acknowledged is there. The time of the
// neighbours' requests is reported: on a quiet machine 99 of 100 take less than 100 ms. With -long attacks go on for
// longer.
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
//
//	go test ./test/attack                              seconds each
//	go test ./test/attack -run TestUnread -long -v     minutes each
package attack
