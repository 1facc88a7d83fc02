// SPDX-License-Identifier: Apache-2.0

package changebuffer

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// IdleMax is the time after the last KeepAlive at which the buffer is emptied. A restarted archiver can resume
	// within this time.
	IdleMax = time.Minute
	// blockSize is the minimum size of a block of memory for commands, unless the limit is smaller.
	blockSize = 256 << 10
	// overhead is the approximate memory for a command in addition to the command's bytes.
	overhead = 64
	// idleKeepAlivesMax is the number of KeepAlive calls after which the buffer removes an empty partition without new
	// commands.
	idleKeepAlivesMax = 1000
)

// ErrGone means that the buffer does not contain all requested entries.
var ErrGone = errors.New("the change buffer does not contain these entries")

// Buffer stores commands in memory. It is safe for concurrent use. A nil Buffer is never active.
type Buffer struct {
	// limit is the approximate maximum memory for commands, in bytes.
	limit int64
	// run is 0 while the buffer is inactive. It gets a new value whenever the buffer is activated.
	run atomic.Uint64

	mu         sync.Mutex
	runs       uint64
	keepAlives uint64
	partitions map[uint64]*partitionBuffer
	// blocks are in the order in which they were filled.
	blocks []*block
	bytes  int64
	lost   uint64
	idle   *time.Timer
	closed bool
}

// partitionBuffer holds, in order, all commands of a partition with indexes greater than after and up to upto.
type partitionBuffer struct {
	after, upto uint64
	entries     []entry
	// lastUsed is the value of Buffer.keepAlives when a command was last added.
	lastUsed uint64
}

type entry struct {
	index   uint64
	command []byte
}

// block is memory for commands. owners contains the partitions of these commands.
type block struct {
	data   []byte
	owners []*partitionBuffer
	bytes  int64
}

// New returns an inactive buffer. bound is the memory limit in bytes.
func New(bound int64) *Buffer { return &Buffer{limit: bound} }

// KeepAlive activates the buffer, or keeps it active, for another IdleMax.
func (j *Buffer) KeepAlive() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.keepAlives++
	if j.run.Load() == 0 {
		j.runs++
		j.partitions = map[uint64]*partitionBuffer{}
		j.run.Store(j.runs)
		run := j.runs
		j.idle = time.AfterFunc(IdleMax, func() { j.expire(run) })
		return
	}
	j.idle.Reset(IdleMax)
	for id, p := range j.partitions {
		if len(p.entries) == 0 && j.keepAlives-p.lastUsed > idleKeepAlivesMax {
			delete(j.partitions, id)
		}
	}
}

// expire deactivates the buffer if run is still the current run.
func (j *Buffer) expire(run uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.run.Load() == run {
		j.stopLocked()
	}
}

func (j *Buffer) stopLocked() {
	if j.idle != nil {
		j.idle.Stop()
	}
	j.run.Store(0)
	j.partitions, j.blocks, j.bytes = nil, nil, 0
}

// Close deactivates the buffer permanently.
func (j *Buffer) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.stopLocked()
	return nil
}

// Run returns the run to pass to Add and EndEntry for one entry. If it returns 0, the caller need not call Add and
// EndEntry.
func (j *Buffer) Run() uint64 {
	if j == nil {
		return 0
	}
	return j.run.Load()
}

// Add copies a command of the entry at index in a partition's log. The caller must add entries in order, and must call
// EndEntry after the last command of each entry.
func (j *Buffer) Add(run, partition, index uint64, command []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.run.Load() != run {
		return
	}
	p := j.partition(partition, index)
	j.makeRoom(len(command))
	b := j.block(len(command))
	n := len(b.data)
	b.data = append(b.data, command...)
	b.owners = append(b.owners, p)
	b.bytes += int64(len(command)) + overhead
	j.bytes += int64(len(command)) + overhead
	p.entries = append(p.entries, entry{index, b.data[n:len(b.data):len(b.data)]})
}

// EndEntry marks the entry at index as complete.
func (j *Buffer) EndEntry(run, partition, index uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.run.Load() == run {
		j.partition(partition, index).upto = index
	}
}

// partition returns the buffer of a partition for the entry at index. If previous entries are missing because a
// snapshot has replaced them, partition resets the buffer.
func (j *Buffer) partition(partition, index uint64) *partitionBuffer {
	p := j.partitions[partition]
	if p == nil || p.upto+1 != index {
		p = &partitionBuffer{after: index - 1, upto: index - 1}
		j.partitions[partition] = p
	}
	p.lastUsed = j.keepAlives
	return p
}

// makeRoom drops the oldest blocks until a command of the given size fits.
func (j *Buffer) makeRoom(size int) {
	for len(j.blocks) > 0 && j.bytes+int64(size)+overhead > j.limit {
		b := j.blocks[0]
		j.blocks[0] = nil
		j.blocks = j.blocks[1:]
		j.bytes -= b.bytes
		j.lost += uint64(len(b.owners))
		// All earlier blocks have been dropped, so this block holds the oldest entries of each owner.
		for _, p := range b.owners {
			p.after = p.entries[0].index
			p.entries[0] = entry{}
			p.entries = p.entries[1:]
		}
	}
}

// block returns a block with room for a command.
func (j *Buffer) block(size int) *block {
	if n := len(j.blocks); n > 0 {
		if b := j.blocks[n-1]; cap(b.data)-len(b.data) >= size {
			return b
		}
	}
	b := &block{data: make([]byte, 0, max(int64(size), min(blockSize, j.limit/8)))}
	j.blocks = append(j.blocks, b)
	return b
}

// Each calls fn, in order, for the commands of a partition with indexes greater than after and up to upto, until fn
// returns false. If a command is missing, it returns ErrGone without calling fn. fn must not modify the commands.
func (j *Buffer) Each(partition, after, upto uint64, fn func(index uint64, command []byte) bool) error {
	if after >= upto {
		return nil
	}
	j.mu.Lock()
	p := j.partitions[partition]
	if p == nil || after < p.after || upto > p.upto {
		j.mu.Unlock()
		return ErrGone
	}
	from, _ := slices.BinarySearchFunc(p.entries, after+1, func(k entry, index uint64) int {
		return cmp.Compare(k.index, index)
	})
	list := slices.Clone(p.entries[from:]) // the commands remain valid while list refers to them
	j.mu.Unlock()
	for _, k := range list {
		if k.index > upto || !fn(k.index, k.command) {
			break
		}
	}
	return nil
}

// Stats holds statistics of a Buffer.
type Stats struct {
	// On reports whether the buffer is active.
	On bool
	// Bytes is the memory in use. Limit is the memory limit. Lost is the number of commands that were dropped because
	// of the limit.
	Bytes, Limit int64
	Lost         uint64
}

// Stats returns the current statistics.
func (j *Buffer) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{On: j.run.Load() != 0, Bytes: j.bytes, Limit: j.limit, Lost: j.lost}
}
