// SPDX-License-Identifier: Apache-2.0

package options

import (
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// StatementBytes returns the memory for the texts, syntax trees, and plans of large statements during execution.
// Prepared statements receive the same amount. Each amount is 1/16 of the budget.
func (m *Memory) StatementBytes() int64 {
	return int64(min(max(m.Budget/16, 16<<20), 256<<20))
}

// EvaluationBytes returns the memory for evaluated expressions and for results that are being read. It is four times
// the size of the largest result. The maximum is a quarter of the budget, unless a single result may be larger.
func (o *Options) EvaluationBytes() int64 {
	result := int64(o.Limits.ResultBytes)
	return max(result, min(4*result, int64(o.Memory.Budget)/4))
}

// ScriptBytes returns the maximum growth of the heap, in bytes, while a JavaScript function or procedure runs. It is
// an eighth of the budget, within the limits of scripts.
func (m *Memory) ScriptBytes() uint64 {
	return min(max(uint64(m.Budget)/8, script.MemoryBytesMin), script.MemoryBytesMax)
}

// ShareOfMemory returns the memory budget of one of several nodes on a machine.
func ShareOfMemory(nodes int) Bytes {
	return max(Bytes(process.MachineMemory()/2)/Bytes(max(nodes, 1)), budgetMin)
}

// TuneRuntime adapts the Go runtime of a database process to the memory budget (see process.Tune). Programs that embed
// a database keep their own settings.
func (o Options) TuneRuntime() {
	o = o.WithDefaults()
	// With cgo, the block cache and the memtables are outside the Go heap.
	outside := o.Memory.BlockCache + 4*o.Memory.Memtable
	if o.Cluster.Internal != "" {
		outside += 4*o.Memory.Memtable + raftlog.BlockCacheBytes // add the memory of the Raft log
	}
	process.Tune(int64(o.Memory.Budget), int64(outside))
}
