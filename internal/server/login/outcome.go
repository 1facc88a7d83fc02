// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// failureLines is the maximum number of failed logins that are logged per second. The next message contains the number
// of omitted messages.
const failureLines = 5

// outcomes counts and logs the outcomes of logins.
type outcomes struct {
	limiter lineLimiter
	log     *slog.Logger
	told    func(from netip.Addr, name string, outcome error)

	succeeded, failed, refused atomic.Uint64
}

// lineLimiter limits the log messages per second.
type lineLimiter struct {
	mu             sync.Mutex
	second         int64
	lines, omitted int
}

// allow reports whether a message may be logged now. It also returns the number of messages omitted since the last
// message.
func (l *lineLimiter) allow(now time.Time) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second {
		l.second, l.lines = s, 0
	}
	if l.lines++; l.lines > failureLines {
		l.omitted++
		return 0, false
	}
	omitted, l.omitted = l.omitted, 0
	return omitted, true
}

func newOutcomes(log *slog.Logger, told func(netip.Addr, string, error)) *outcomes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if told == nil {
		told = func(netip.Addr, string, error) {}
	}
	return &outcomes{log: log, told: told}
}

// Counts returns the numbers of successful logins, of failed logins, and of logins rejected without a check since the
// start.
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
	if err != nil {
		if omitted, ok := o.limiter.allow(time.Now()); ok {
			o.log.LogAttrs(ctx, slog.LevelWarn, "login failed", slog.String("role", shorten(name)),
				slog.Any("from", from), slog.String("error", shorten(err.Error())), slog.Int("omitted", omitted))
		}
	}
	o.told(from, shorten(name), err)
}
