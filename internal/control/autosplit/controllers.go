// SPDX-License-Identifier: Apache-2.0

package autosplit

import (
	"context"
	"sync"
)

// Controllers holds all controllers of automatic splits and merges of a node.
type Controllers struct {
	Splits     *SplitController
	merges     *MergeController
	throughput *ThroughputSplitter
}

// NewControllers returns the controllers of a node. The controllers are active while Run runs.
func NewControllers(o Options) *Controllers {
	splits := New(o)
	return &Controllers{splits, NewMergeController(splits, o.Queries), &ThroughputSplitter{Options: &splits.Options}}
}

// Run requests splits and merges until ctx ends.
func (c *Controllers) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, run := range []func(context.Context){c.Splits.Run, c.merges.Run, c.throughput.Run} {
		wg.Go(func() { run(ctx) })
	}
	wg.Wait()
}
