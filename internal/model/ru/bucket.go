// SPDX-License-Identifier: Apache-2.0

package ru

import "time"

// Bucket is a token bucket that may go into debt: a command is admitted while the balance is positive and charged
// afterwards, when its price is known. The zero Bucket admits everything. It is not safe for concurrent use.
type Bucket struct {
	rate    Units // per second; 0 = no limit
	balance Units
	last    time.Time
}

// SetRate sets the units per second, 0 for no limit. A bucket that had no limit begins with a full second's worth;
// otherwise the balance is kept, cut to the new size.
func (b *Bucket) SetRate(perSecond Units, now time.Time) {
	b.refill(now)
	if b.rate == 0 {
		b.balance, b.last = perSecond, now
	}
	b.rate = max(perSecond, 0)
	b.balance = min(b.balance, b.rate)
}

// refill adds what has flowed in since the last call. The bucket holds one second's worth. A clock that goes back adds
// nothing.
func (b *Bucket) refill(now time.Time) {
	if b.rate == 0 {
		return
	}
	dt := now.Sub(b.last)
	if dt <= 0 {
		return
	}
	missing := b.rate - b.balance
	// The bucket is full when missing/rate seconds have passed; the division keeps long pauses from overflowing.
	if dt >= time.Duration(float64(missing)/float64(b.rate)*float64(time.Second)) {
		b.balance, b.last = b.rate, now
		return
	}
	in := Units(float64(b.rate) * dt.Seconds())
	b.balance += in
	// what is less than a thousandth flows in later
	b.last = b.last.Add(time.Duration(float64(in) / float64(b.rate) * float64(time.Second)))
}

// Admit reports whether a command may run at now. If not, retryAfter says when the balance will be positive.
func (b *Bucket) Admit(now time.Time) (retryAfter time.Duration, ok bool) {
	if b.rate == 0 {
		return 0, true
	}
	b.refill(now)
	if b.balance > 0 {
		return 0, true
	}
	wait := time.Duration(float64(1-b.balance) / float64(b.rate) * float64(time.Second))
	return max(wait+b.last.Sub(now), time.Millisecond), false
}

// Charge takes units out; the balance may become negative.
func (b *Bucket) Charge(u Units) {
	if b.rate != 0 {
		b.balance -= u
	}
}

// Balance is what is left, negative in debt. It does not refill.
func (b *Bucket) Balance() Units { return b.balance }
