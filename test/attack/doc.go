// SPDX-License-Identifier: Apache-2.0

// Package attack contains attacks of malicious or defective clients on running nodes. Each attack is a program against
// a separate process with a memory budget of 512 MiB, while neighbors send normal requests.
//
// Every attack ends with the same checks. The process has stayed below 1.25 times its budget and has not died or
// panicked. Every response to a neighbor was correct, and every acknowledged write exists. The latency of the
// neighbors' requests is reported; on an idle machine, 99 of 100 take less than 100 ms. With -long, attacks last
// longer.
//
// TestEvaluation uses a process with a budget of 256 MiB and clients that may only read. Each request may raise the
// resident memory by a quarter of the budget and use five seconds of CPU time. Many concurrent requests may raise the
// resident memory by 1.25 times the budget. The memory of the process without requests is not counted. With -long, the
// test runs all attacks of generator_test.go and prints a table of them.
//
// The following tests cover the points of the security review:
//
//	A1   TestNoDescriptors, TestStrangers; of the internal address: test/process TestStrangers
//	A2   TestCheckpoints
//	A3   TestPrepares, TestDeadlines, TestTypeBomb
//	A4   TestFlippedManifest; damage of other files: test/crash TestDamage
//	A5   TestWrongPasswords
//	A6   TestUninvited; certificates of others: test/process TestMutualTLS
//	A7   TestOrdersOfStrangers
//	A8   TestUnreadPages, TestPartialFrames
//	A10  TestDeadlines; with a clock of its own: query/cql/read TestDeadline
//	A11  TestCertificates
//	S8, S9  TestEvaluation
//
//	go test -tags integration ./test/attack                              seconds each
//	go test -tags integration ./test/attack -run TestUnread -long -v     minutes each
package attack
