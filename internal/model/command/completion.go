// SPDX-License-Identifier: Apache-2.0

package command

// Completion receives the outcome of a write exactly once. Callers implement Completion on a pooled struct to avoid
// allocations.
//
// Done may be called on the same goroutine before the function that received the Completion returns, or later on
// another goroutine. Done must be fast and must not block, because writes that were committed together wait for each
// other's Done.
type Completion interface{ Done(o Outcome) }

// Outcome is the outcome of a Mutation, a Conditional, or several commands that are applied together.
type Outcome struct {
	// Err is nil if the write has reached the requested durability. After an error, all other fields are zero.
	Err error
	// Index is a log position at or after which the partition applies the write. Index is 0 if the position is
	// unknown. A read on this node that must see the write passes the index to partition.Replica.NoteAcknowledged.
	Index uint64
	// Charge is the cost of the write in the unit of ru.Units. Repeated attempts are not charged.
	Charge int64
	// CAS is the result of a Conditional, or nil for other writes. The receiver owns it.
	CAS *CASResult
}

// Failed returns the outcome of a write that failed.
func Failed(err error) Outcome { return Outcome{Err: err} }

// Decided returns the outcome of an evaluated Conditional. index has the meaning of Outcome.Index.
func Decided(d *CASResult, index uint64) Outcome {
	return Outcome{Index: index, Charge: d.Charge, CAS: d}
}

// OutcomeChannel is a Completion for a caller that blocks. Its buffer must have room for one outcome.
type OutcomeChannel chan Outcome

// Done implements Completion.
func (c OutcomeChannel) Done(o Outcome) { c <- o }
