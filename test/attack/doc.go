// SPDX-License-Identifier: Apache-2.0

// Package attack attacks running nodes like malicious or defective clients. Each attack runs against a separate
// process with a memory budget of 512 MiB. Neighbors send normal requests at the same time.
//
// Every attack ends with the same checks. The process must not exceed 1.25 times its budget, exit, or panic. Every
// response to a neighbor must be correct, and every acknowledged write must exist. The checks also report the latency
// of the neighbors' requests. On an idle machine, 99 of 100 requests take less than 100 ms. With -long, attacks last
// longer.
//
// TestEvaluation uses a process with a budget of 256 MiB and clients that may only read. Each request may raise the
// resident memory by a quarter of the budget, and may use five seconds of CPU time. Many concurrent requests may raise
// the resident memory by 1.25 times the budget. The resident memory of the idle process does not count. With -long,
// the test runs all attacks of generator_test.go and prints a table of them.
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
