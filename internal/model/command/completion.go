// SPDX-License-Identifier: Apache-2.0

package command

// Completion is notified once of the outcome of a write. Callers implement it on a pooled struct, so that a write
// allocates nothing.
//
// Done may be called on the same goroutine before the function that received the Completion returns, or later on
// another goroutine. It must be quick and must not block, because writes that were committed together wait for each
// other's Done. err is nil if the write has reached the requested durability.
type Completion interface{ Done(err error) }

// CASCompletion is notified once of the outcome of a Conditional. The rules of Completion apply. The CASResult belongs
// to the receiver. It is nil if err is not nil.
type CASCompletion interface{ CASDone(d *CASResult, err error) }
