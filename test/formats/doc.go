// SPDX-License-Identifier: Apache-2.0

// Package formats stores data directories and encoded records of every released format. It checks that this build
// opens all of them (RFC 0006). The build that introduces a format writes its fixture once:
//
//	go test ./test/formats -rewrite
//
// After a release, the fixture must not be changed.
package formats
