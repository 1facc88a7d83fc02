// SPDX-License-Identifier: Apache-2.0

// Package bucket keeps objects in a bucket of a server that speaks S3: put, get, ask for, list and remove them as a
// whole. It has what backups need, and no more: no parts, no versions, no streams.
//
// Guarantees: (OB1) an object is put when the server has said so and has it, by its size, when asked again; (OB2) what
// is returned is as long as the server said that it is, and is no text of an error; that it is what was put is for the
// caller to check, by a digest; (OB3) no request waits for ever and no answer fills the memory, whatever the server
// does: tries, pauses, times and sizes have bounds, which are constants of this package. Requests are signed with
// Signature Version 4, bodies included, and redirections are not followed: the signature would not fit. It knows
// nothing of backups. Start at Bucket.
package bucket
