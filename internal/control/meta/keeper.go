// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Change stores records if they are still at the expected version, and returns the new one, or *partition.Conflict. Any
// other error leaves open whether it happened, now or later.
type Change func(ctx context.Context, c command.Records) (version uint64, err error)

// ErrUncertain says that nobody knows whether an Update happened, or will.
var ErrUncertain = errors.New("the outcome of the change is not known")

// ErrUnseen says that an Update happened, and that this node's own records did not show it in time.
var ErrUnseen = errors.New("the change is made but this node has not seen it yet")

// ErrClosed says that the keeper is closed.
var ErrClosed = errors.New("the keeper of the cluster's state is closed")

// Options tunes a Keeper. The zero value of all but Self is useful.
type Options struct {
	// Self is the node that the keeper belongs to. No other keeper may have it at the same time.
	Self topology.NodeID
	// Pause is how long to wait before a proposal is sent again, and before a failed load is tried again: 50 ms,
	// doubled each time up to 20 times that.
	Pause time.Duration
	// Attempts bounds how often a proposal is sent that gets an error: 16. Conflicts are bounded by the context alone.
	Attempts int
	// Line asks whoever leads the meta partition for the turn of this keeper: see Enter. Its errors do not matter. nil:
	// nobody is asked.
	Line func(ctx context.Context) (version uint64, err error)
	// Newest asks for the version that the records have at least when every change is in them that was acknowledged
	// before the call, on whatever node: see Refresh. Errors are tried again. nil: the records here are the newest.
	Newest func(ctx context.Context) (version uint64, err error)
	// LoadFailed hears why the records could not be loaded; they are tried again.
	LoadFailed func(err error)
	// Sched is what the keeper's goroutine and its waits go by, nil outside simulations. Nonce tells this keeper from
	// any other that its node has had; random if 0.
	Sched *sched.Scheduler
	Nonce uint64
}

// Keeper has the newest state of this node and changes it for the whole cluster.
//
// An Update works like this:
//
//	base := the newest state here; next := f(base)
//	wait for this keeper's turn; if the state is an older one then than that of the one before, begin again
//	propose the difference {Expect: base.Version} with a mark of this keeper
//	  answered with a version    wait until this node's own state is there
//	  answered with a conflict   wait for a newer state; it has the mark: done; else begin again with it
//	  anything else              a newer state decides as above; while there is none propose the same again
//
// The mark is what makes the last line safe: of several equal proposals with one Expect at most one is applied, and a
// newer state without the mark proves that none was or will be.
type Keeper struct {
	scan   Scan
	change Change
	opts   Options
	sched  *sched.Scheduler
	nonce  uint64 // of this keeper: sequence begins again with each
	turn   lock
	seq    uint64 // of the last proposal; guarded by turn

	// line is held by the first of those that wait in Enter; it guards granted, the version that the last turn
	// began with, and when that ends.
	line    lock
	granted uint64
	ends    time.Time

	// asking is held by the one who asks Options.Newest. asked numbers the questions, answered is that of the last
	// answer; both, and the answer, are guarded by mu.
	asking          lock
	asked, answered uint64
	answer          uint64

	state   atomic.Pointer[State]
	wake    chan struct{}
	closing chan struct{}
	running sched.Group

	mu     sync.Mutex
	wanted uint64        // the version that records are known to have reached
	heard  []heard       // how, in order; what is missing is read from the records
	seen   *State        // the newest that all subscribers have seen; State may be newer
	loaded chan struct{} // closed and made anew when the state changes or is seen

	publishing  lock // orders Subscribe and publications; subscribers may wait
	subscribers []func(old, new *State)
}

// lock is a mutex over waits: a channel of capacity one, full while nobody holds it.
type lock chan struct{}

func newLock() lock {
	l := make(lock, 1)
	l.release()
	return l
}

func (l lock) release() { l <- struct{}{} }

// hold takes a lock; ErrClosed says that the keeper was closed meanwhile.
func (k *Keeper) hold(ctx context.Context, l lock) error {
	_, err := sched.Await(k.sched, ctx, l, 0, k.closing)
	return ended(err)
}

// ended names the end of a wait as callers know it.
func ended(err error) error {
	if errors.Is(err, sched.ErrEnded) {
		return ErrClosed
	}
	return err
}

// New loads the state and starts the keeper.
func New(scan Scan, change Change, opts Options) (*Keeper, error) {
	if opts.Pause <= 0 {
		opts.Pause = 50 * time.Millisecond
	}
	if opts.Attempts <= 0 {
		opts.Attempts = 16
	}
	state, err := Load(scan)
	if err != nil {
		return nil, err
	}
	if opts.Nonce == 0 {
		opts.Nonce = rand.Uint64()
	}
	k := &Keeper{
		scan: scan, change: change, opts: opts, sched: opts.Sched, nonce: opts.Nonce, turn: newLock(), line: newLock(),
		asking:     newLock(),
		publishing: newLock(),
		wake:       make(chan struct{}, 1), closing: make(chan struct{}), loaded: make(chan struct{}),
		wanted:  state.Version,
		seen:    state,
		running: sched.Group{Scheduler: opts.Sched},
	}
	k.state.Store(state)
	k.running.Go(k.run)
	return k, nil
}

// Close stops loading and ends what waits.
func (k *Keeper) Close() {
	close(k.closing)
	k.running.Wait()
}

// State is the newest state of this node.
func (k *Keeper) State() *State { return k.state.Load() }

// Subscribe makes f hear of every state after the one that it returns, in ascending order though not necessarily each.
// f must neither block for long nor call Update or Subscribe.
func (k *Keeper) Subscribe(f func(old, new *State)) *State {
	if k.hold(context.Background(), k.publishing) != nil {
		return k.State() // closed: there will be no other
	}
	defer k.publishing.release()
	k.subscribers = append(k.subscribers, f)
	return k.State()
}

// Reload says that the records of this node are at a version, or a later one. It does not block.
func (k *Keeper) Reload(version uint64) {
	k.mu.Lock()
	k.wanted = max(k.wanted, version)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// heard is what leads to a version of the records from the one before.
type heard struct {
	version uint64
	put     []command.Record
}

// heardMax bounds the changes that a keeper which is busy remembers.
const heardMax = 64

// Hear tells by which change the records of this node came to a version from the one before; Reload follows. It does
// not block, and keeps put. Without it states are read from the records, as a whole.
func (k *Keeper) Hear(version uint64, put []command.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.heard) < heardMax {
		k.heard = append(k.heard, heard{version, put})
	}
}

// load returns the state that follows: by the change that led to the next version if that was heard of, else from the
// records.
func (k *Keeper) load() (*State, error) {
	s := k.State()
	k.mu.Lock()
	i := 0
	for i < len(k.heard) && k.heard[i].version <= s.Version {
		i++
	}
	k.heard = append(k.heard[:0:0], k.heard[i:]...)
	var next *heard
	if len(k.heard) > 0 && k.heard[0].version == s.Version+1 {
		first := k.heard[0]
		next, k.heard = &first, append(k.heard[:0:0], k.heard[1:]...) // what led to a state is not kept with it
	}
	k.mu.Unlock()
	if next == nil {
		return s.reload(k.scan)
	}
	return s.follow(next.version, next.put)
}

// run loads states whenever there may be a newer one.
func (k *Keeper) run() {
	for {
		if _, err := sched.Await(k.sched, context.Background(), k.wake, 0, k.closing); err != nil {
			return
		}
		for attempt := 0; k.behind(); {
			next, err := k.load()
			if err == nil {
				if next.Version <= k.State().Version {
					break // the records are not there yet; whatever brings them there calls Reload
				}
				if k.publish(next) != nil {
					return
				}
				continue
			}
			if k.opts.LoadFailed != nil {
				k.opts.LoadFailed(err)
			}
			if !k.sleep(context.Background(), attempt) {
				return
			}
			attempt++
		}
	}
}

func (k *Keeper) behind() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.State().Version < k.wanted
}

// publish makes next the newest state and tells all subscribers.
func (k *Keeper) publish(next *State) error {
	if err := k.hold(context.Background(), k.publishing); err != nil {
		return err
	}
	defer k.publishing.release()
	old := k.state.Swap(next)
	k.signal(nil)
	for _, f := range k.subscribers {
		f(old, next)
	}
	k.signal(next)
	return nil
}

// signal wakes callers that wait for a state, or, with one, for its having been seen.
func (k *Keeper) signal(seen *State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen != nil {
		k.seen = seen
	}
	close(k.loaded)
	k.loaded = make(chan struct{})
}

// sleep waits before the next attempt, longer each time; false if ctx ended or the keeper was closed.
func (k *Keeper) sleep(ctx context.Context, attempt int) bool {
	_, err := sched.Await[struct{}](k.sched, ctx, nil, k.pause(attempt), k.closing)
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

func (k *Keeper) pause(attempt int) time.Duration {
	return min(k.opts.Pause<<min(attempt, 8), 20*k.opts.Pause)
}

// Wait returns the newest state that all subscribers have seen, once it is of the version or a later one.
func (k *Keeper) Wait(ctx context.Context, version uint64) (*State, error) {
	return k.await(ctx, func() *State {
		if k.seen.Version < version {
			return nil
		}
		return k.seen
	})
}

// after returns a state that is newer than a version.
func (k *Keeper) after(ctx context.Context, version uint64) (*State, error) {
	return k.await(ctx, func() *State {
		if s := k.State(); s.Version > version {
			return s
		}
		return nil
	})
}

// await waits until get, which is called under mu, has a state.
func (k *Keeper) await(ctx context.Context, get func() *State) (*State, error) {
	for {
		k.mu.Lock()
		state, next := get(), k.loaded
		k.mu.Unlock()
		if state != nil {
			return state, nil
		}
		if _, err := sched.Await(k.sched, ctx, next, 0, k.closing); err != nil {
			return nil, ended(err)
		}
	}
}
