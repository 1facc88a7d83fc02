// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
)

// TestClose checks that parts are stopped once, in the reverse order of their start. Close must return all errors.
func TestClose(t *testing.T) {
	l := New("", slog.New(slog.DiscardHandler))
	var stopped []string
	broken := errors.New("broken")
	l.OnClose(func() error { stopped = append(stopped, "first"); return broken })
	l.Background(func(ctx context.Context) {
		<-ctx.Done()
		stopped = append(stopped, "background")
	})
	l.OnClose(func() error { stopped = append(stopped, "last"); return nil })
	for range 2 {
		if err := l.Close(); !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	if want := []string{"last", "background", "first"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %q, want %q", stopped, want)
	}
}

// TestFail checks that a failure ends a start. Close must not wait for parts that do not stop afterward.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("", slog.New(slog.DiscardHandler))
		failure, released := errors.New("failure"), make(chan struct{})
		err := l.Start(t.Context(), func(ctx context.Context) error {
			l.OnClose(func() error { <-released; return nil })
			l.Serve(func() error { return failure })
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, failure) || !errors.Is(l.Err(), failure) {
			t.Error("the start returned", err)
		}
		l.Fail(ErrLeft)
		if err := l.Close(); !errors.Is(err, failure) {
			t.Error("Close returned", err)
		}
		close(released)
	})
}
