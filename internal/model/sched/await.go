// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"context"
	"time"
)

// signalsMax is the maximum number of additional channels that Await and Sleep accept.
const signalsMax = 2

// Await returns the next value from ready, or the zero value if ready is closed. If ctx ends before a value is ready,
// Await returns the error of ctx. Unless most is 0, Await returns context.DeadlineExceeded after the duration most.
// Await returns ErrEnded if one of the channels in ends is closed. ends has at most two channels.
func Await[T any](
	s *Scheduler, ctx context.Context, ready <-chan T, most time.Duration, ends ...<-chan struct{},
) (v T, err error) {
	var end [signalsMax]<-chan struct{}
	if copy(end[:], ends) < len(ends) {
		panic("sched: more ends than signalsMax")
	}
	if s != nil {
		return awaitDriven(s, ctx, ready, most, end)
	}
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case v = <-ready:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	case <-end[0]:
	case <-end[1]:
	case <-over:
		return v, context.DeadlineExceeded
	}
	return v, ErrEnded
}

func awaitDriven[T any](
	s *Scheduler, ctx context.Context, ready <-chan T, most time.Duration, ends [signalsMax]<-chan struct{},
) (v T, err error) {
	ended := false
	err = s.driver.Wait(ctx, func() bool {
		select {
		case v = <-ready:
			return true
		default:
			ended = received(ends)
			return ended
		}
	}, most)
	if err == nil && ended {
		err = ErrEnded
	}
	return v, err
}

// Sleep returns nil after d. If one of at most two signals becomes ready, Sleep returns nil earlier. When ctx has
// ended, Sleep returns the error of ctx. Sleep checks ctx first.
func (s *Scheduler) Sleep(ctx context.Context, d time.Duration, signals ...<-chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var signal [signalsMax]<-chan struct{}
	if copy(signal[:], signals) < len(signals) {
		panic("sched: more signals than signalsMax")
	}
	if s != nil {
		return s.sleepDriven(ctx, d, signal)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-signal[0]:
	case <-signal[1]:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (s *Scheduler) sleepDriven(ctx context.Context, d time.Duration, signals [signalsMax]<-chan struct{}) error {
	err := s.driver.Wait(ctx, func() bool { return received(signals) }, max(d, 1))
	if err == context.DeadlineExceeded && ctx.Err() == nil { //nolint:errorlint // Wait returns it unwrapped
		err = nil
	}
	return err
}

// received receives from the first ready channel, and reports whether any channel was ready. It checks the channels in
// order.
func received(channels [signalsMax]<-chan struct{}) bool {
	for _, c := range channels {
		select {
		case <-c:
			return true
		default:
		}
	}
	return false
}
