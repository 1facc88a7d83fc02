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

// errBeaten says that another change was made first: compute again.
var errBeaten = errors.New("another change was first")

// Update makes the change that f computes, for the whole cluster, and returns a state that has it. f gets the newest
// state and must be a pure function of it: it is called again whenever somebody else was faster. Its errors are
// returned as they are; a next state that differs in nothing is no change. Updates of one keeper are made one after the
// other. (MT3), (MT4)
func (k *Keeper) Update(ctx context.Context, f func(*State) (*State, error)) (*State, error) {
	if err := k.hold(ctx, k.turn); err != nil {
		return nil, err
	}
	defer k.turn.release()
	for turn := false; ; {
		base := k.State()
		next, err := f(base)
		if err != nil {
			return nil, err
		}
		var records []command.Record
		if next != base {
			if records, err = base.Difference(next); err != nil {
				return nil, err
			}
		}
		if len(records) == 0 {
			return k.Wait(ctx, base.Version)
		}
		if !turn {
			if turn = true; !k.enter(ctx, base.Version) {
				continue
			}
		}
		version, err := k.propose(ctx, base.Version, records)
		if errors.Is(err, errBeaten) {
			turn = false
			continue
		}
		if err != nil {
			return nil, err
		}
		state, err := k.Wait(ctx, version)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnseen, err)
		}
		return state, nil
	}
}

// propose stores records on top of a version, and finds out whether that happened.
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
			if newer, err = k.after(ctx, base); err != nil && !open {
				return 0, err // and nothing was done
			}
		} else {
			open = true
			newer = k.pauseAfter(ctx, base, attempt)
		}
		switch {
		case newer != nil && bytes.Equal(newer.records[key], mark):
			return newer.Version, nil
		case newer != nil:
			return 0, errBeaten
		case final(err) || attempt+1 >= k.opts.Attempts || ctx.Err() != nil || beaten:
			return 0, fmt.Errorf("%w: %w", ErrUncertain, err)
		}
	}
}

// pauseAfter waits a moment for a state that is newer than a version, nil if none comes.
func (k *Keeper) pauseAfter(ctx context.Context, version uint64, attempt int) *State {
	ctx, cancel := k.sched.WithTimeout(ctx, k.pause(attempt))
	defer cancel()
	newer, err := k.after(ctx, version)
	if err != nil {
		return nil
	}
	return newer
}

// final reports whether trying again is in vain.
func final(err error) bool {
	return errors.Is(err, partition.ErrClosed) || errors.Is(err, partition.ErrStopped) || errors.Is(err, ErrClosed)
}
