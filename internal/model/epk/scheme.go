// SPDX-License-Identifier: Apache-2.0

package epk

// Scheme says how a container's keys are hashed.
type Scheme uint8

// The schemes: of one path by version 1 and 2, and of one to three paths.
const (
	V1 Scheme = iota + 1
	V2
	MultiHash
)
