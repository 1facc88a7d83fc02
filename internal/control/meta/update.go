// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// errConflict means that another change was made first. The change must be computed again.
var errConflict = errors.New("a concurrent change was made first")

// Update applies the change that f computes to the metadata of the cluster, and returns a state that contains the
// change (MT3, MT4). f receives the latest state and must be a pure function, because Update calls f again after every
// conflict. Update returns errors of f unchanged. If f changes no records, Update records no change. Updates of one
// Keeper run one at a time.
func (k *Keeper) Update(ctx context.Context, f func(*State) (*State, error)) (*State, error) {
	if err := k.lock(ctx, k.updating); err != nil {
		return nil, err
	}
	defer k.updating.release()
	for turn := false; ; {
		base := k.State()
		next, err := f(base)
		if err != nil {
			return nil, err
		}
		var records []command.Record
		if next != base {
			if records, err = base.Diff(next); err != nil {
				return nil, err
			}
		}
		if len(records) == 0 {
			return k.Wait(ctx, base.Version)
		}
		if !turn {
			if turn = true; !k.acquire(ctx, base.Version) {
				continue
			}
		}
		version, err := k.propose(ctx, base.Version, records)
		if errors.Is(err, errConflict) {
			turn = false
			continue
		}
		if err != nil {
			return nil, err
		}
		state, err := k.Wait(ctx, version)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotVisible, err)
		}
		return state, nil
	}
}

// propose stores records if the current version is base, and reports whether the records were stored.
func (k *Keeper) propose(ctx context.Context, base uint64, records []command.Record) (version uint64, err error) {
	k.seq++
	mark := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, k.nonce), k.seq)
	key := proposalPrefix + string(k.opts.Self[:])
	change := command.Records{Expect: base, Put: append(records, command.Record{Key: []byte(key), Value: mark})}
	open := false // an earlier attempt may still be applied
	for attempt := 0; ; attempt++ {
		version, err := k.change(ctx, change)
		if err == nil {
			k.Reload(version)
			return version, nil
		}
		var newer *State
		conflict, beaten := errors.AsType[*partition.Conflict](err)
		if beaten {
			k.Reload(conflict.Version)
			if newer, err = k.awaitNewer(ctx, base); err != nil && !open {
				return 0, err // no records were changed
			}
		} else {
			open = true
			newer = k.awaitNewerBriefly(ctx, base, attempt)
		}
		switch {
		case newer != nil && bytes.Equal(newer.records[key], mark):
			return newer.Version, nil
		case newer != nil:
			return 0, errConflict
		case permanent(err) || attempt+1 >= k.opts.Attempts || ctx.Err() != nil || beaten:
			return 0, fmt.Errorf("%w: %w", ErrUncertain, err)
		}
	}
}

// awaitNewerBriefly waits for a state that is newer than a version. It returns nil after the delay of the given
// attempt.
func (k *Keeper) awaitNewerBriefly(ctx context.Context, version uint64, attempt int) *State {
	ctx, cancel := k.sched.WithTimeout(ctx, k.pause(attempt))
	defer cancel()
	newer, err := k.awaitNewer(ctx, version)
	if err != nil {
		return nil
	}
	return newer
}

// permanent reports whether a retry is useless.
func permanent(err error) bool {
	return errors.Is(err, partition.ErrClosed) || errors.Is(err, partition.ErrStopped) || errors.Is(err, ErrClosed)
}
