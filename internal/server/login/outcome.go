// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// outcomes counts what became of logins, and tells of it.
type outcomes struct {
	log  *slog.Logger
	told func(from netip.Addr, name string, outcome error)

	succeeded, failed, refused *atomic.Uint64
}

func newOutcomes(log *slog.Logger, told func(netip.Addr, string, error)) outcomes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if told == nil {
		told = func(netip.Addr, string, error) {}
	}
	return outcomes{log, told, new(atomic.Uint64), new(atomic.Uint64), new(atomic.Uint64)}
}

// Counts are the logins since the start: those that came in, those whose name or password was wrong, and those that
// were sent away unchecked.
func (o *outcomes) Counts() (succeeded, failed, refused uint64) {
	return o.succeeded.Load(), o.failed.Load(), o.refused.Load()
}

// tell counts and tells of one login.
func (o *outcomes) tell(ctx context.Context, from netip.Addr, name string, err error) {
	switch err.(type) {
	case nil:
		o.succeeded.Add(1)
	case *dberr.BadCredentials:
		o.failed.Add(1)
	default:
		o.refused.Add(1)
	}
	if err != nil {
		o.log.LogAttrs(ctx, slog.LevelWarn, "login failed",
			slog.String("role", shorten(name)), slog.Any("from", from), slog.String("error", shorten(err.Error())))
	}
	o.told(from, shorten(name), err)
}
