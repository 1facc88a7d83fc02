// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
)

// ReadBarrier returns a state that contains every change acknowledged on any node before the call (MT6). All
// subscribers have received this state. Callers use ReadBarrier before they reject a request because an object does not
// exist. The state on a node may be older than the leader's state. If Options.Member is nil, every state is the latest
// state.
//
// While the meta partition has no reachable leader, ReadBarrier waits until ctx ends.
func (k *Keeper) ReadBarrier(ctx context.Context) (*State, error) {
	version := k.State().Version
	if k.opts.Member != nil {
		var err error
		if version, err = k.latestVersion(ctx); err != nil {
			return nil, err
		}
		k.Reload(version)
	}
	return k.Wait(ctx, version)
}

// latestVersion calls Member.LatestVersion until the call succeeds. Callers that arrive during a call share the next
// call, because the result of the current call may not include changes that precede their arrival.
func (k *Keeper) latestVersion(ctx context.Context) (uint64, error) {
	k.mu.Lock()
	came := k.barrierRequests
	k.mu.Unlock()
	if err := k.lock(ctx, k.barrier); err != nil {
		return 0, err
	}
	defer k.barrier.release()
	k.mu.Lock()
	if k.barrierServed > came {
		defer k.mu.Unlock()
		return k.barrierVersion, nil
	}
	k.barrierRequests++
	question := k.barrierRequests
	k.mu.Unlock()
	for attempt := 0; ; attempt++ {
		version, err := k.opts.Member.LatestVersion(ctx)
		if err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.barrierServed, k.barrierVersion = question, version
			return version, nil
		}
		if !k.sleep(ctx, min(attempt, 2)) {
			return 0, errors.Join(ctx.Err(), err)
		}
	}
}

// AwaitLatest waits until this node has applied every change acknowledged before the call; see ReadBarrier.
func (k *Keeper) AwaitLatest(ctx context.Context) error {
	_, err := k.ReadBarrier(ctx)
	return err
}
