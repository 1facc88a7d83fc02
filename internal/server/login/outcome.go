// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// failureLines is the maximum number of failed logins that are logged per second. The next message contains the number
// of omitted messages.
const failureLines = 5

// Observer observes login attempts.
type Observer interface {
	// LoginAttempted is called when an attempt has ended. outcome is nil if the attempt succeeded.
	LoginAttempted(from netip.Addr, name string, outcome error)
}

// outcomes counts and logs the outcomes of logins.
type outcomes struct {
	limiter  *rate.Limiter
	omitted  atomic.Int64
	log      *slog.Logger
	observer Observer

	succeeded, failed, refused atomic.Uint64
}

func newOutcomes(log *slog.Logger, observer Observer) *outcomes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &outcomes{limiter: rate.NewLimiter(failureLines, failureLines), log: log, observer: observer}
}

// Counts returns the numbers of successful and failed logins since the start. It also returns the number of logins
// that were rejected without a check.
func (o *outcomes) Counts() (succeeded, failed, refused uint64) {
	return o.succeeded.Load(), o.failed.Load(), o.refused.Load()
}

// tell counts and logs the outcome of a login.
func (o *outcomes) tell(ctx context.Context, from netip.Addr, name string, err error) {
	switch err.(type) { //nolint:errorlint // a checker does not wrap
	case nil:
		o.succeeded.Add(1)
	case *dberr.BadCredentials:
		o.failed.Add(1)
	default:
		o.refused.Add(1)
	}
	switch {
	case err != nil && o.limiter.Allow():
		o.log.LogAttrs(ctx, slog.LevelWarn, "login failed", slog.String("role", shorten(name)), slog.Any("from", from),
			slog.String("error", shorten(err.Error())), slog.Int64("omitted", o.omitted.Swap(0)))
	case err != nil:
		o.omitted.Add(1)
	}
	o.notify(from, shorten(name), err)
}

// notify notifies the observer.
func (o *outcomes) notify(from netip.Addr, name string, err error) {
	if o.observer != nil {
		o.observer.LoginAttempted(from, name, err)
	}
}
