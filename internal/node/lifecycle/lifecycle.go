// SPDX-License-Identifier: Apache-2.0

// Package lifecycle stops the parts of a node in the reverse order of their start. It also stops a node after a
// failure.
package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
)

// failedTimeout is the maximum time for which a start or Close waits after a failure. Calls of a broken store may
// never return.
const failedTimeout = 3 * time.Second

// watchInterval is the interval at which Watch calls its function.
const watchInterval = 100 * time.Millisecond

// ErrLeft is the expected error of a node that was decommissioned and has no replicas.
var ErrLeft = errors.New("the node has left the cluster: you can delete its data")

// Lifecycle holds the running parts of a node and the node's failure. OnClose, Background, and Serve must be called by
// the goroutine that starts the node. The other methods are safe for concurrent use.
type Lifecycle struct {
	// data is the data directory of the node. It appears in error messages.
	data    string
	log     *slog.Logger
	started atomic.Bool

	servers sync.WaitGroup
	closers []func() error // in the order in which the parts were started

	closeOnce sync.Once
	closeErr  error
	failOnce  sync.Once
	failed    chan struct{}
	failure   error
}

// New returns the Lifecycle of a node that has not been started. data is the node's data directory, or empty.
func New(data string, log *slog.Logger) *Lifecycle {
	return &Lifecycle{data: data, log: log, failed: make(chan struct{})}
}

// Start calls start. The context of start ends if the node fails, because a start may wait for other nodes.
func (l *Lifecycle) Start(ctx context.Context, start func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.failed:
			cancel()
		case <-ctx.Done():
		}
	}()
	started := make(chan error, 1)
	go func() { started <- start(ctx) }()
	var err error
	select {
	case err = <-started:
	case <-l.failed:
		select {
		case err = <-started:
		case <-time.After(failedTimeout):
			return l.failure
		}
	}
	if failure := l.Err(); failure != nil && err != nil {
		return failure
	}
	l.started.Store(err == nil)
	return err
}

// OnClose adds functions that Close calls. Close calls them in the reverse order of their addition.
func (l *Lifecycle) OnClose(closers ...func() error) { l.closers = append(l.closers, closers...) }

// Background runs f until the node stops. Close cancels the context of f and waits for f to return.
func (l *Lifecycle) Background(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	l.OnClose(func() error {
		cancel()
		wg.Wait()
		return nil
	})
}

// Serve runs a server. A function passed to OnClose must stop the server. If the server returns an error, the node
// fails.
func (l *Lifecycle) Serve(serve func() error) {
	l.servers.Go(func() {
		if err := serve(); err != nil {
			l.Fail(err)
		}
	})
}

// Watch makes the node fail when check returns an error. It calls check several times per second.
func (l *Lifecycle) Watch(check func() error) {
	l.Background(func(ctx context.Context) {
		t := time.NewTicker(watchInterval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if err := check(); err != nil {
					l.Fail(err)
					return
				}
			}
		}
	})
}

// Failed returns a channel that is closed after a failure that stops the node. Err then returns the cause.
func (l *Lifecycle) Failed() <-chan struct{} { return l.failed }

// Err returns the cause of the failure, or nil while the node serves.
func (l *Lifecycle) Err() error {
	select {
	case <-l.failed:
		return l.failure
	default:
		return nil
	}
}

// Fail records and logs the failure of the node. Only the first call has an effect.
func (l *Lifecycle) Fail(err error) {
	l.failOnce.Do(func() {
		err = membership.ExplainDiskFailure(l.data, err)
		l.failure = err
		if errors.Is(err, ErrLeft) {
			l.log.LogAttrs(context.Background(), slog.LevelInfo, err.Error())
		} else {
			l.log.LogAttrs(context.Background(), slog.LevelError, "stopping node", slog.String("error", err.Error()))
		}
		close(l.failed)
	})
}

// Close stops all parts. After a failure, it does not wait for parts that cannot be stopped.
func (l *Lifecycle) Close() error {
	l.closeOnce.Do(func() {
		closed := make(chan error, 1)
		go func() {
			var errs []error
			for i := len(l.closers) - 1; i >= 0; i-- {
				errs = append(errs, l.closers[i]())
			}
			l.servers.Wait()
			closed <- errors.Join(errs...)
		}()
		select {
		case l.closeErr = <-closed:
			if l.started.Load() && l.closeErr == nil && l.Err() == nil {
				l.log.LogAttrs(context.Background(), slog.LevelInfo, "node stopped")
			}
			return
		case <-l.failed: // the failure occurred before Close, or Close caused it
		}
		select {
		case l.closeErr = <-closed:
		case <-time.After(failedTimeout):
			l.closeErr = l.Err()
		}
	})
	return l.closeErr
}
