// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
)

// Refresh returns a state that all subscribers have seen and that has every change which had been acknowledged, on
// whatever node, when Refresh was called. The states of a node follow those of the leader after a moment, and those of
// one that was away after a longer one: whoever refuses something because it is not in a state, or makes nothing of it,
// asks here first. Without Options.Newest every state is the newest. (MT6)
//
// While the meta partition has no leader that answers, Refresh waits until ctx ends.
func (k *Keeper) Refresh(ctx context.Context) (*State, error) {
	version := k.State().Version
	if k.opts.Newest != nil {
		var err error
		if version, err = k.newest(ctx); err != nil {
			return nil, err
		}
		k.Reload(version)
	}
	return k.Wait(ctx, version)
}

// newest asks for the newest version, until there is an answer. Callers that come while a question is open share the
// next one: the answer to the one that is open may be older than what they have heard.
func (k *Keeper) newest(ctx context.Context) (uint64, error) {
	k.mu.Lock()
	came := k.asked
	k.mu.Unlock()
	if err := k.hold(ctx, k.asking); err != nil {
		return 0, err
	}
	defer k.asking.release()
	k.mu.Lock()
	if k.answered > came {
		defer k.mu.Unlock()
		return k.answer, nil
	}
	k.asked++
	question := k.asked
	k.mu.Unlock()
	for attempt := 0; ; attempt++ {
		version, err := k.opts.Newest(ctx)
		if err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.answered, k.answer = question, version
			return version, nil
		}
		if !k.sleep(ctx, min(attempt, 2)) {
			return 0, errors.Join(ctx.Err(), err)
		}
	}
}
