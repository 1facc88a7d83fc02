// SPDX-License-Identifier: Apache-2.0

package command

// Completion is told once how a write ended. Callers implement it on a struct they pool, so that a write allocates
// nothing.
//
// Done may be called before the function that was given the Completion returns, on the same goroutine, or later on
// another one. It must be quick and must not block: writes that were committed together wait for each other's Done. err
// is nil when the write is as durable as the store was asked to make it.
type Completion interface{ Done(err error) }

// CASCompletion is told once how a Conditional ended. The rules of Completion hold. The Decision belongs to the
// receiver; it is nil if err is not.
type CASCompletion interface{ CASDone(d *CASResult, err error) }
