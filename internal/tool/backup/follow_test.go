// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
)

// cluster is a NodeClient of a simulated cluster with nodes n1 and n2.
type cluster struct {
	mu    sync.Mutex
	run   string
	parts []archive.Partition
	// logs maps partitions to their entries, which start at index 11. lost maps a partition to the index up to which a
	// node has lost the partition's entries.
	logs map[uint64][][]byte
	lost map[string]map[uint64]uint64
	dead map[string]bool
	// step is the time between two restore points.
	step time.Duration
	now  time.Time
}

func newCluster(parts ...uint64) *cluster {
	c := &cluster{logs: map[uint64][][]byte{}, now: epoch, step: time.Second, dead: map[string]bool{},
		lost: map[string]map[uint64]uint64{"n1": {}, "n2": {}}}
	for _, id := range parts {
		c.parts = append(c.parts, archive.Partition{ID: id, Node: "n1"})
	}
	return c
}

func entry(k command.EntryKind, n int) []byte {
	return command.AppendEntry(nil, &command.Entry{Kind: k, Mutations: []command.Mutation{{Table: 1024,
		Token: token.Hash([]byte{1}), Key: []byte{1}, Ops: []command.Op{{Kind: command.OpRow, Operand: cell(n)}}}}})
}

// write appends an entry to the log of a partition. The entry sets the cell to a number.
func (c *cluster) write(id uint64, n int) { c.log(id, entry(command.EntryWrite, n)) }

func (c *cluster) log(id uint64, e []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs[id] = append(c.logs[id], e)
}

// clusterRecords contains records of the cluster metadata.
var clusterRecords = []byte{0, 1, 1, 'k', 'v'}

// Order implements NodeClient.
func (c *cluster) Order(_ context.Context, what string, body []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var asked archive.FileRequest
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	switch what {
	case "backup/mark":
		c.now = c.now.Add(c.step)
		t := archive.Snapshot{ID: fmt.Sprint(c.now), Time: c.now, Cluster: "c", Incarnation: c.run,
			Nodes:        []string{"n1", "n2"},
			MetadataFile: "d"}
		if !slices.Contains(asked.KnownFiles, "d") {
			t.Metadata = clusterRecords
		}
		table := archive.Table{Keyspace: "ks", Name: "t", ID: 1024}
		for _, p := range c.parts {
			p.Applied = 10 + uint64(len(c.logs[p.ID]))
			table.Partitions = append(table.Partitions, p)
		}
		t.Tables = []archive.Table{table}
		return json.Marshal(t)
	case "backup/entries":
		if c.dead[asked.Node] {
			return nil, errors.New("no answer")
		}
		var out archive.Entries
		for _, w := range asked.Entries {
			log := c.logs[w.Partition]
			gone := w.After < c.lost[asked.Node][w.Partition] || w.Upto > 10+uint64(len(log))
			// A response contains one entry, so the caller must request the remaining entries.
			out.Status = append(out.Status, archive.EntryStatus{Upto: w.After + 1, Missing: gone})
			if !gone {
				out.Add(w.Partition, w.After+1, log[w.After-10])
			}
		}
		return out.Append(nil)
	case "backup/page":
		return (&archive.FileResponse{}).Append(nil)
	}
	return []byte("{}"), nil
}

// TestFollower checks, with a simulated cluster, which events the log survives and which events start a new log. A new
// log must start with a base backup at its first restore point. A restore to any restore point must return the data
// that was written before that point.
func TestFollower(t *testing.T) {
	archive.Pack(nil) // pack creates channels, which must not belong to the synctest bubble
	begins := "starting a new log"
	for name, c := range map[string]struct {
		do   func(c *cluster)
		hole string
	}{
		"nothing happens": {do: func(*cluster) {}},
		"writes":          {do: func(c *cluster) { c.write(1, 2); c.write(1, 3); c.write(2, 4) }},
		"what no restore needs": {do: func(c *cluster) {
			c.log(1, command.AppendEntry(nil, &command.Entry{Kind: command.EntryFreeze}))
			c.write(1, 5)
		}},
		"another node has what the leader lost": {do: func(c *cluster) { c.write(1, 6); c.lost["n1"][1] = 1000 }},
		"a split": {do: func(c *cluster) {
			c.write(1, 7)
			c.parts = append(c.parts, archive.Partition{ID: 9, Node: "n2"})
			c.write(9, 8)
		}},
		"a merge": {do: func(c *cluster) {
			c.write(2, 9)
			c.log(1, command.AppendEntry(nil, &command.Entry{Kind: command.EntryMerge,
				Merge: command.Merge{Right: 2, Frozen: uint64(10 + len(c.logs[2]))}}))
			c.parts = c.parts[:1]
			c.write(1, 8)
		}},
		"a merge with what was born and merged meanwhile": {do: func(c *cluster) {
			c.write(8, 10)
			c.log(7, command.AppendEntry(nil, &command.Entry{Kind: command.EntryMerge,
				Merge: command.Merge{Right: 8, Frozen: 11}}))
			c.log(1, command.AppendEntry(nil, &command.Entry{Kind: command.EntryMerge,
				Merge: command.Merge{Right: 7, Frozen: 11}}))
		}},
		"nobody has it": {func(c *cluster) { c.write(1, 11); c.lost["n1"][1], c.lost["n2"][1] = 1000, 1000 },
			"no node"},
		"a node is dead for a while": {do: func(c *cluster) {
			c.write(1, 12)
			c.dead["n1"], c.lost["n2"][1] = true, 1000
		}},
		"a truncation":               {func(c *cluster) { c.log(1, entry(command.EntryTruncate, 0)) }, "truncated"},
		"a node alone was restarted": {func(c *cluster) { c.run = "another" }, "restarted"},
		"a partition went back":      {func(c *cluster) { c.logs[1] = nil }, "shorter than before"},
		"the clock was set back":     {do: func(c *cluster) { c.write(1, 13); c.now = epoch.Add(-time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &locked{Target: memory{}}
				d := newCluster(1, 2)
				d.write(1, 1)
				run := func() string {
					ctx, stop := context.WithCancel(t.Context())
					shown := new(archiveMessages)
					f := &Follower{Node: d, Target: m, Every: time.Second, BaseEvery: time.Hour,
						Clock: sched.SystemClock, Display: shown}
					ended := make(chan error, 1)
					go func() { ended <- f.Run(ctx) }()
					time.Sleep(20 * time.Second)
					d.mu.Lock()
					dead := len(d.dead) > 0
					clear(d.dead)
					d.mu.Unlock()
					if dead {
						time.Sleep(20 * time.Second)
					}
					stop()
					if err := <-ended; err != nil {
						t.Fatal(err)
					}
					return shown.said
				}
				run()
				c.do(d)
				said := run() // another process resumes the log
				if c.hole == "" && strings.Contains(said, begins) || !strings.Contains(said, c.hole) {
					t.Errorf("the messages are %q", said)
				}
				l, err := LoadLog(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				bases, ranges := 1, 1
				if name == "a node is dead for a while" { // no data is lost, but this time has no restore points
					ranges = 2
				}
				if c.hole != "" {
					bases = 2
				}
				if len(l.Bases) != bases || len(l.Ranges()) != ranges || len(l.Chains) != bases {
					t.Errorf("%d bases, %d pieces, %v", len(l.Bases), len(l.Chains), l.Ranges())
				}
				for _, b := range l.Bases {
					if b.Metadata.Records != 1 || b.Metadata.Name != archive.FileName(clusterRecords) {
						t.Errorf("a base backup has wrong cluster metadata: %+v", b.Metadata)
					}
				}
				at, _ := l.Newest()
				if p, err := l.At(t.Context(), m, at); err != nil ||
					p.Records != nil && string(p.Records) != string(clusterRecords) {
					t.Errorf("a restore point has wrong cluster metadata: %+v %v", p, err)
				}
				_, got, err := valueAt(t.Context(), l, m, at)
				want := -1
				for _, log := range d.logs {
					for _, e := range log {
						for n := 2; n < 14; n++ {
							if slices.Equal(e, entry(command.EntryWrite, n)) {
								want = max(want, n)
							}
						}
					}
				}
				if err != nil || c.hole == "" && want >= 0 && got != want || c.hole != "" && got != -1 {
					t.Errorf("the newest restore point has %d, want %d: %v", got, want, err)
				}
			})
		})
	}
}

// TestTwoFollowers checks two followers that archive to the same repository. The first follower must stop, and the log
// must remain continuous.
func TestTwoFollowers(t *testing.T) {
	archive.Pack(nil)
	synctest.Test(t, func(t *testing.T) {
		m := &locked{Target: memory{}}
		d := newCluster(1)
		ctx, stop := context.WithCancel(t.Context())
		ended := [2]chan error{make(chan error, 1), make(chan error, 1)}
		for i := range ended {
			f := &Follower{Node: d, Target: m, Every: time.Second, BaseEvery: time.Hour, Clock: sched.SystemClock,
				Display: new(archiveMessages)}
			go func() { ended[i] <- f.Run(ctx) }()
			time.Sleep(30 * time.Second)
		}
		if err := <-ended[0]; !errors.Is(err, ErrTaken) {
			t.Errorf("the first one ended with %v", err)
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-ended[1]; err != nil {
			t.Error(err)
		}
		if l, err := LoadLog(t.Context(), m); err != nil || len(l.Chains) != 1 {
			t.Errorf("the log is in %d pieces: %v", len(l.Chains), err)
		}
	})
}

// locked makes a Target safe for concurrent use.
type locked struct {
	Target
	mu sync.Mutex
}

func (l *locked) Put(ctx context.Context, name string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Target.Put(ctx, name, data)
}

func (l *locked) Get(ctx context.Context, name string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Target.Get(ctx, name)
}

func (l *locked) Has(ctx context.Context, name string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Target.Has(ctx, name)
}

func (l *locked) List(ctx context.Context, prefix string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Target.List(ctx, prefix)
}

func (l *locked) Remove(ctx context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Target.Remove(ctx, name)
}

// archiveMessages is an ArchiveDisplay that records the messages.
type archiveMessages struct {
	mu   sync.Mutex
	said string
}

func (m *archiveMessages) Say(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said += text + "\n"
}

func (*archiveMessages) Show(Followed) {}
