// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"math"
	"strings"
)

// Version is a version of an item. The empty value is the state before the first write.
type Version struct{ Item, Value string }

// Write is a write of a version. If Known is set, Over is the version that it replaced.
type Write struct {
	Version
	Over  string
	Known bool
}

// Never is the end of a transaction whose outcome is unknown.
const Never = math.MaxInt64

// Txn is a transaction. It holds the versions that the transaction read from other transactions, and the last version
// of each item that it wrote. A transaction with an unknown outcome must be in the history if another transaction has
// read its writes.
type Txn struct {
	Name string
	// Begin and End are the times of the request and the response. One clock measures the times of all transactions.
	Begin, End int64
	Reads      []Version
	Writes     []Write
}

// Verdict is the reason why a history is not strictly serializable.
type Verdict struct {
	// Anomaly is the name of the anomaly.
	Anomaly string
	// Snapshot is set if snapshot isolation also forbids the history. Timeless is set if the anomaly does not depend
	// on time. Otherwise, the transactions are serializable, but only in an order that does not respect time.
	Snapshot, Timeless bool
	// Cycle lists the transactions, each with the dependency of the next transaction.
	Cycle []string
}

// String returns the verdict on one line.
func (v *Verdict) String() string {
	not := "serializable in the order of time"
	switch {
	case v.Snapshot:
		not = "snapshot isolation"
	case v.Timeless:
		not = "serializable"
	}
	return fmt.Sprintf("%s, which is not %s: %s", v.Anomaly, not, strings.Join(v.Cycle, " "))
}

// Check returns nil for a strictly serializable history. It may miss anomalies if writes do not report the versions
// that they replaced.
func Check(txns []Txn) *Verdict {
	g := &graph{txns: txns}
	if v := g.build(); v != nil {
		return v
	}
	if c := g.cycle(ww); c != nil {
		return g.verdict("dirty write", c, true)
	}
	if c := g.cycle(ww | wr); c != nil {
		return g.verdict("circular information flow", c, true)
	}
	if c := g.skew(false); c != nil {
		if g.oneItem(c) {
			return g.verdict("lost update", c, true)
		}
		return g.verdict("read skew", c, true)
	}
	if c := g.skew(true); c != nil {
		return g.verdict("long fork", c, true)
	}
	if c := g.cycle(ww | wr | rw); c != nil {
		return g.verdict("write skew", c, false)
	}
	if c := g.cycle(ww | wr | rw | rt); c != nil {
		v := g.verdict("stale read", c, false)
		v.Timeless = false
		return v
	}
	return nil
}

func (g *graph) verdict(anomaly string, cycle []edge, snapshot bool) *Verdict {
	v := &Verdict{Anomaly: anomaly, Snapshot: snapshot, Timeless: true}
	for _, e := range cycle {
		if e.from < len(g.txns) {
			v.Cycle = append(v.Cycle, g.txns[e.from].Name)
		}
		switch e.kind {
		case rt:
			if e.from < len(g.txns) {
				v.Cycle = append(v.Cycle, "ended before")
			}
		case ww:
			v.Cycle = append(v.Cycle, "wrote "+e.item+" before")
		case wr:
			v.Cycle = append(v.Cycle, "wrote "+e.item+" that was read by")
		case rw:
			v.Cycle = append(v.Cycle, "did not see "+e.item+" of")
		}
	}
	v.Cycle = append(v.Cycle, g.txns[cycle[0].from].Name)
	return v
}

// oneItem reports whether all edges of a cycle concern one item. In that case, an update was lost.
func (g *graph) oneItem(cycle []edge) bool {
	for _, e := range cycle {
		if e.item != cycle[0].item {
			return false
		}
	}
	return true
}
