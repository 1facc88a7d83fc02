// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// IdleMax is for how long commands are kept while nobody asks: an archive that was stopped may go on within it.
	IdleMax = time.Minute
	// blockSize is the least size of a piece of memory for commands, but for a small bound.
	blockSize = 256 << 10
	// overhead is about what a command takes beside its bytes.
	overhead = 64
	// quietMax is after how many calls of Ask a partition is forgotten of which nothing is kept and nothing came.
	quietMax = 1000
)

// ErrGone says that something of what was asked for is not kept here: it is too old, or was never here.
var ErrGone = errors.New("the journal does not have these entries any more")

// Journal keeps commands. A nil one is never on. It may be used concurrently.
type Journal struct {
	// bound is how much memory commands take at most, in bytes, about.
	bound int64
	// run is 0 while nothing is kept; otherwise it is another one whenever the journal begins anew.
	run atomic.Uint64

	mu    sync.Mutex
	runs  uint64
	asks  uint64
	parts map[uint64]*part
	// blocks are in the order in which they were filled; what is kept of a partition is so, too.
	blocks []*block
	bytes  int64
	lost   uint64
	idle   *time.Timer
	closed bool
}

// part is what is kept of a partition: all commands of indexes above after and up to upto, in order.
type part struct {
	after, upto uint64
	kept        []kept
	// touched is the value of Journal.asks when something came last.
	touched uint64
}

type kept struct {
	index   uint64
	command []byte
}

// block is memory of commands, and whose they are.
type block struct {
	data   []byte
	owners []*part
	bytes  int64
}

// New makes a journal for so many bytes of commands; it is off.
func New(bound int64) *Journal { return &Journal{bound: bound} }

// Ask has commands kept from now on, until nobody has asked for IdleMax.
func (j *Journal) Ask() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.asks++
	if j.run.Load() == 0 {
		j.runs++
		j.parts = map[uint64]*part{}
		j.run.Store(j.runs)
		run := j.runs
		j.idle = time.AfterFunc(IdleMax, func() { j.expire(run) })
		return
	}
	j.idle.Reset(IdleMax)
	for id, p := range j.parts {
		if len(p.kept) == 0 && j.asks-p.touched > quietMax {
			delete(j.parts, id)
		}
	}
}

// expire ends a run.
func (j *Journal) expire(run uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.run.Load() == run {
		j.endLocked()
	}
}

func (j *Journal) endLocked() {
	if j.idle != nil {
		j.idle.Stop()
	}
	j.run.Store(0)
	j.parts, j.blocks, j.bytes = nil, nil, 0
}

// Close ends it for good.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.endLocked()
	return nil
}

// Run is what Add and Reached are to be called with for one entry, 0 if they need not be.
func (j *Journal) Run() uint64 {
	if j == nil {
		return 0
	}
	return j.run.Load()
}

// Add keeps a copy of a command of the entry with that index of a partition's log. Entries come in order; Reached
// follows the last command of each.
func (j *Journal) Add(run, partition, index uint64, command []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.run.Load() != run {
		return
	}
	p := j.part(partition, index)
	j.makeRoom(len(command))
	b := j.block(len(command))
	n := len(b.data)
	b.data = append(b.data, command...)
	b.owners = append(b.owners, p)
	b.bytes += int64(len(command)) + overhead
	j.bytes += int64(len(command)) + overhead
	p.kept = append(p.kept, kept{index, b.data[n:len(b.data):len(b.data)]})
}

// Reached says that all of an entry was added that is to be kept.
func (j *Journal) Reached(run, partition, index uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.run.Load() == run {
		j.part(partition, index).upto = index
	}
}

// part is that of a partition of which the entry with that index comes. Where entries are missing before it, because a
// snapshot took their place, it begins anew.
func (j *Journal) part(partition, index uint64) *part {
	p := j.parts[partition]
	if p == nil || p.upto+1 != index {
		p = &part{after: index - 1, upto: index - 1}
		j.parts[partition] = p
	}
	p.touched = j.asks
	return p
}

// makeRoom lets the oldest blocks go until there is room for a command.
func (j *Journal) makeRoom(size int) {
	for len(j.blocks) > 0 && j.bytes+int64(size)+overhead > j.bound {
		b := j.blocks[0]
		j.blocks[0] = nil
		j.blocks = j.blocks[1:]
		j.bytes -= b.bytes
		j.lost += uint64(len(b.owners))
		for _, p := range b.owners { // its oldest, for all blocks before this one are gone
			p.after = p.kept[0].index
			p.kept[0] = kept{}
			p.kept = p.kept[1:]
		}
	}
}

// block is one that has room for a command.
func (j *Journal) block(size int) *block {
	if n := len(j.blocks); n > 0 {
		if b := j.blocks[n-1]; cap(b.data)-len(b.data) >= size {
			return b
		}
	}
	b := &block{data: make([]byte, 0, max(int64(size), min(blockSize, j.bound/8)))}
	j.blocks = append(j.blocks, b)
	return b
}

// Each passes on the commands of a partition that are kept of the entries above after, up to upto, in order, until fn
// returns false; nothing and ErrGone if not all of them are kept here. Commands must not be changed.
func (j *Journal) Each(partition, after, upto uint64, fn func(index uint64, command []byte) bool) error {
	if after >= upto {
		return nil
	}
	j.mu.Lock()
	p := j.parts[partition]
	if p == nil || after < p.after || upto > p.upto {
		j.mu.Unlock()
		return ErrGone
	}
	from, _ := slices.BinarySearchFunc(p.kept, after+1, func(k kept, index uint64) int {
		return cmp.Compare(k.index, index)
	})
	list := slices.Clone(p.kept[from:]) // the memory of commands stays while somebody has them
	j.mu.Unlock()
	for _, k := range list {
		if k.index > upto || !fn(k.index, k.command) {
			break
		}
	}
	return nil
}

// Level is what a journal keeps.
type Level struct {
	// On says that something is kept at all.
	On bool
	// Bytes is the memory of what is kept, Bound the most that it may be. Lost counts the commands that had to go.
	Bytes, Bound int64
	Lost         uint64
}

// Level is what is kept now.
func (j *Journal) Level() Level {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Level{On: j.run.Load() != 0, Bytes: j.bytes, Bound: j.bound, Lost: j.lost}
}
