// SPDX-License-Identifier: Apache-2.0

// Package formats keeps data directories and encoded records of every format that was ever in a release, and tests that
// this build opens all of them (RFC 0006). A format's fixture is written once, by the build that brings it:
//
//	go test ./test/formats -rewrite
//
// and not touched any more when a release has it.
package formats
