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

// Change stores records if the current version is the expected version, and returns the new version, or
// *partition.Conflict. After any other error, the outcome is unknown, and the change may be applied later.
type Change func(ctx context.Context, c command.Records) (version uint64, err error)

// ErrUncertain means that an Update may have been applied or may be applied later.
var ErrUncertain = errors.New("the outcome of the change is unknown")

// ErrNotVisible means that an Update has been applied, but this node has not received the new version in time.
var ErrNotVisible = errors.New("the change was made, but this node has not received it yet")

// ErrClosed means that the Keeper is closed.
var ErrClosed = errors.New("metadata keeper is closed")

// Member is a node of a cluster. It is a *membership.Member.
type Member interface {
	// AcquireFromLeader calls Keeper.Acquire on the node that leads the meta partition. The Keeper ignores errors.
	AcquireFromLeader(ctx context.Context) (version uint64, err error)
	// LatestVersion returns a version that contains every change acknowledged on any node before the call; see
	// ReadBarrier. The Keeper retries after errors.
	LatestVersion(ctx context.Context) (version uint64, err error)
}

// Options configures a Keeper. Only Self is required.
type Options struct {
	// Self is the node that owns the Keeper. A node may have only one Keeper at a time.
	Self topology.NodeID
	// Pause is the delay before the first retry of a proposal or a load. The delay doubles with every retry, up to 20
	// times Pause. The default is 50 ms.
	Pause time.Duration
	// Attempts is the maximum number of failed proposals of an Update, except conflicts. The default is 16.
	Attempts int
	// Member is this node as a member of its cluster. If Member is nil, proposals are not queued, and the records on
	// this node are always the latest records.
	Member Member
	// LoadFailed receives the errors of failed loads. The Keeper retries failed loads.
	LoadFailed func(err error)
	// Sched runs the Keeper's goroutine and waits. It is nil outside simulations. Nonce distinguishes this Keeper from
	// all other Keepers of the node. The default is a random number.
	Sched *sched.Scheduler
	Nonce uint64
}

// Keeper holds the latest metadata on this node and changes the metadata of the cluster.
//
// An Update works as follows:
//
//	base := latest state on this node; next := f(base)
//	acquire the write queue; restart if another change was made while waiting
//	propose the difference {Expect: base.Version} with a mark of this Keeper
//	  version returned   wait until this node's state reaches it
//	  conflict           wait for a newer state; if it has the mark: done; otherwise restart with it
//	  any other error    a newer state decides as above; without one, propose the same change again
//
// The mark makes the last step safe. Of several equal proposals with the same Expect, only one can be applied. A newer
// state without the mark proves that these proposals were not and will not be applied.
type Keeper struct {
	scan     Scan
	change   Change
	opts     Options
	sched    *sched.Scheduler
	nonce    uint64 // distinguishes this Keeper, because seq restarts with each Keeper
	updating lock
	seq      uint64 // number of the last proposal; guarded by updating

	// queue is the lock of the first waiting caller of Acquire. It guards grantedVersion, which is the version at the
	// last grant, and grantExpires.
	queue          lock
	grantedVersion uint64
	grantExpires   time.Time

	// barrier is the lock of the caller of Member.LatestVersion. barrierRequests counts the calls, barrierServed is the
	// number of the last completed call, and barrierVersion is the result of this call. mu guards all three fields.
	barrier                        lock
	barrierRequests, barrierServed uint64
	barrierVersion                 uint64

	state   atomic.Pointer[State]
	wake    chan struct{}
	closing chan struct{}
	running sched.Group

	mu        sync.Mutex
	target    uint64          // known version of the records
	pending   []pendingChange // changes after State, in order; missing changes are read from the records
	delivered *State          // latest state that all subscribers have received
	changed   chan struct{}   // closed and replaced when the state changes or is delivered

	publishing  lock // serializes Subscribe and publications; subscribers may block
	subscribers []func(old, new *State)
}

// lock is a mutex whose acquisition can be canceled. It is a channel of capacity one that is full while the lock is
// free.
type lock chan struct{}

func newLock() lock {
	l := make(lock, 1)
	l.release()
	return l
}

func (l lock) release() { l <- struct{}{} }

// lock acquires a lock. It returns ErrClosed if the Keeper is closed first.
func (k *Keeper) lock(ctx context.Context, l lock) error {
	_, err := sched.Await(k.sched, ctx, l, 0, k.closing)
	return waitError(err)
}

// waitError converts the error of a wait.
func waitError(err error) error {
	if errors.Is(err, sched.ErrEnded) {
		return ErrClosed
	}
	return err
}

// New loads the state and starts the Keeper.
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
		scan: scan, change: change, opts: opts, sched: opts.Sched, nonce: opts.Nonce, updating: newLock(),
		queue:      newLock(),
		barrier:    newLock(),
		publishing: newLock(),
		wake:       make(chan struct{}, 1), closing: make(chan struct{}), changed: make(chan struct{}),
		target:    state.Version,
		delivered: state,
		running:   sched.Group{Scheduler: opts.Sched},
	}
	k.state.Store(state)
	k.running.Go(k.run)
	return k, nil
}

// Close stops loading and ends all waits.
func (k *Keeper) Close() {
	close(k.closing)
	k.running.Wait()
}

// State returns the latest state on this node.
func (k *Keeper) State() *State { return k.state.Load() }

// Subscribe registers f for states after the returned state. f receives states in ascending order of their versions,
// but may not receive every state. f must not block for long and must not call Update or Subscribe.
func (k *Keeper) Subscribe(f func(old, new *State)) *State {
	if k.lock(context.Background(), k.publishing) != nil {
		return k.State() // the Keeper is closed and no state will follow
	}
	defer k.publishing.release()
	k.subscribers = append(k.subscribers, f)
	return k.State()
}

// Reload reports that the records of this node have reached a version. It does not block.
func (k *Keeper) Reload(version uint64) {
	k.mu.Lock()
	k.target = max(k.target, version)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// pendingChange is the change from the previous version to a version.
type pendingChange struct {
	version uint64
	put     []command.Record
}

// pendingMax is the maximum number of pending changes.
const pendingMax = 64

// NoteChange reports the change from the previous version to a version. The caller must then call Reload. NoteChange
// does not block, and retains put. Without this call, the Keeper reads all records.
func (k *Keeper) NoteChange(version uint64, put []command.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) < pendingMax {
		k.pending = append(k.pending, pendingChange{version, put})
	}
}

// load returns the next state. It applies the pending change to the next version, or reads all records if no such
// change is pending.
func (k *Keeper) load() (*State, error) {
	s := k.State()
	k.mu.Lock()
	i := 0
	for i < len(k.pending) && k.pending[i].version <= s.Version {
		i++
	}
	k.pending = append(k.pending[:0:0], k.pending[i:]...)
	var next *pendingChange
	if len(k.pending) > 0 && k.pending[0].version == s.Version+1 {
		first := k.pending[0]
		next, k.pending = &first, append(k.pending[:0:0], k.pending[1:]...) // keep pending until a state is loaded
	}
	k.mu.Unlock()
	if next == nil {
		return s.reload(k.scan)
	}
	return s.applyChange(next.version, next.put)
}

// run loads states until the Keeper is closed.
func (k *Keeper) run() {
	for {
		if _, err := sched.Await(k.sched, context.Background(), k.wake, 0, k.closing); err != nil {
			return
		}
		for attempt := 0; k.behind(); {
			next, err := k.load()
			if err == nil {
				if next.Version <= k.State().Version {
					break // the records have not reached the target; Reload will be called again
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
	return k.State().Version < k.target
}

// publish makes next the latest state and passes it to all subscribers.
func (k *Keeper) publish(next *State) error {
	if err := k.lock(context.Background(), k.publishing); err != nil {
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

// signal wakes the callers that wait for a state. If delivered is not nil, it also wakes the callers that wait for the
// delivery of this state.
func (k *Keeper) signal(delivered *State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if delivered != nil {
		k.delivered = delivered
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

// sleep waits before the next attempt. The delay increases with the attempt. sleep returns false if ctx has ended or
// the Keeper is closed.
func (k *Keeper) sleep(ctx context.Context, attempt int) bool {
	_, err := sched.Await[struct{}](k.sched, ctx, nil, k.pause(attempt), k.closing)
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

func (k *Keeper) pause(attempt int) time.Duration {
	return min(k.opts.Pause<<min(attempt, 8), 20*k.opts.Pause)
}

// Wait waits for a version and returns the latest state that all subscribers have received.
func (k *Keeper) Wait(ctx context.Context, version uint64) (*State, error) {
	return k.awaitState(ctx, func() *State {
		if k.delivered.Version < version {
			return nil
		}
		return k.delivered
	})
}

// awaitNewer waits for a state that is newer than a version.
func (k *Keeper) awaitNewer(ctx context.Context, version uint64) (*State, error) {
	return k.awaitState(ctx, func() *State {
		if s := k.State(); s.Version > version {
			return s
		}
		return nil
	})
}

// awaitState waits until get returns a state. It calls get with mu held.
func (k *Keeper) awaitState(ctx context.Context, get func() *State) (*State, error) {
	for {
		k.mu.Lock()
		state, next := get(), k.changed
		k.mu.Unlock()
		if state != nil {
			return state, nil
		}
		if _, err := sched.Await(k.sched, ctx, next, 0, k.closing); err != nil {
			return nil, waitError(err)
		}
	}
}
