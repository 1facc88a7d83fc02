// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// follower is a process that archives a cluster.
type follower struct {
	c   *cluster
	cmd *exec.Cmd
	out process.Output
}

// follow archives a cluster through node i.
func (c *cluster) follow(i int, args ...string) *follower {
	c.t.Helper()
	args = append([]string{"backup", "archive", "--data", c.dir(i)}, args...)
	f := &follower{c: c, cmd: process.Command(c.t, args...)}
	f.cmd.Stdout, f.cmd.Stderr = &f.out, &f.out
	if err := f.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(f.kill)
	return f
}

// kill kills the process. stop first lets the process store its data.
func (f *follower) kill() {
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
}

func (f *follower) stop() {
	f.c.t.Helper()
	_ = f.cmd.Process.Signal(os.Interrupt)
	if err := f.cmd.Wait(); err != nil {
		f.c.t.Errorf("the follower: %v\n%s", err, f.out.String())
	}
}

// hears waits until the process has printed a text the given number of times.
func (f *follower) hears(text string, times int) {
	f.c.t.Helper()
	eventually.None(f.c.t, "output of the archiver: "+text, eventually.Limit, func() string {
		if strings.Count(f.out.String(), text) >= times {
			return ""
		}
		return "not in the output: " + f.out.String()
	})
}

// diary holds the batches of the writers, with the times of each batch by the clock of this machine.
type diary struct {
	c     *cluster
	mu    sync.Mutex
	began map[at]time.Time
	acked map[at]time.Time
	last  []atomic.Int64
	stop  chan struct{}
	wg    sync.WaitGroup
	total atomic.Int64
}

// keep starts writers that send the same kind of batches as cluster.write. They repeat each batch until it is
// acknowledged.
func (c *cluster) keep(writers int) *diary {
	d := &diary{c: c, began: map[at]time.Time{}, acked: map[at]time.Time{}, last: make([]atomic.Int64, writers),
		stop: make(chan struct{})}
	for w := range writers {
		d.wg.Go(func() {
			for k := 1; d.one(w, k); k++ {
			}
		})
	}
	return d
}

// batchWait is the timeout of an attempt.
const batchWait = 3 * time.Second

func (d *diary) one(w, k int) bool {
	before := make([]int, len(d.last))
	for j := range before {
		before[j] = int(d.last[j].Load())
	}
	d.mu.Lock()
	d.began[at{w, k}] = time.Now()
	d.mu.Unlock()
	for {
		select {
		case <-d.stop:
			return false
		default:
		}
		b := d.c.cql.Batch(gocql.LoggedBatch)
		b.Query("INSERT INTO ks.a (w, k, before) VALUES (?, ?, ?)", w, k, before)
		b.Query("INSERT INTO ks.b (k, w, before) VALUES (?, ?, ?)", k, w, before)
		b.Query("INSERT INTO ks.last (w, k) VALUES (?, ?)", w, k)
		ctx, cancel := context.WithTimeout(d.c.t.Context(), batchWait)
		err := b.ExecContext(ctx)
		cancel()
		if err == nil {
			break
		}
	}
	d.mu.Lock()
	d.acked[at{w, k}] = time.Now()
	d.mu.Unlock()
	d.last[w].Store(int64(k))
	d.total.Add(1)
	return true
}

func (d *diary) end() {
	close(d.stop)
	d.wg.Wait()
}

// more waits until n more batches have been acknowledged.
func (d *diary) more(n int64) {
	d.c.t.Helper()
	target := d.total.Load() + n
	eventually.True(d.c.t, "batches", func() bool { return d.total.Load() >= target })
}

// clockSlack is the maximum difference between the cluster's clock and this process's clock. It also bounds the time
// between the execution of a batch and its response.
const clockSlack = 100 * time.Millisecond

// check checks that a keyspace contains the batches of one instant. It must contain all batches acknowledged before
// mark and no batch that started after mark. If it contains a batch, it must also contain all batches on which that
// batch depends.
func (d *diary) check(c *cluster, keyspace string, mark time.Time) {
	c.t.Helper()
	c.checkRestored(keyspace)
	rows := c.rows(keyspace + ".a")
	d.mu.Lock()
	defer d.mu.Unlock()
	for row, acked := range d.acked {
		if _, ok := rows[row]; !ok && acked.Before(mark.Add(-clockSlack)) {
			c.t.Errorf("%s: batch %v, acknowledged %s before the marker, is missing", keyspace, row,
				mark.Sub(acked))
		}
	}
	for row := range rows {
		if began := d.began[row]; began.After(mark.Add(clockSlack)) {
			c.t.Errorf("%s: batch %v, started %s after the marker, exists", keyspace, row, began.Sub(mark))
		}
	}
	c.t.Logf("%s: %d batches", keyspace, len(rows))
}

// partitions returns the IDs of the partitions of a table, in order.
func (c *cluster) partitions(i int, table string) (ids []string) {
	c.t.Helper()
	for _, line := range strings.Split(c.must(i, "partition", "list", table), "\n")[1:] {
		if f := strings.Fields(line); len(f) > 1 {
			ids = append(ids, f[1])
		}
	}
	return ids
}

const timeForm = "2006-01-02 15:04:05.000 MST"

var listed = regexp.MustCompile(`restore points from (\S+ \S+ UTC) to (\S+ \S+ UTC)`)

// ranges returns the time ranges that can be restored according to an archive.
func (c *cluster) ranges(from string) (out [][2]time.Time) {
	c.t.Helper()
	text, err := c.tool(c.t.Context(), "backup", "list", from)
	if err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	for _, m := range listed.FindAllStringSubmatch(text, -1) {
		begin, _ := time.Parse(timeForm, m[1])
		end, _ := time.Parse(timeForm, m[2])
		out = append(out, [2]time.Time{begin, end})
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

var restoredAs = regexp.MustCompile(`as of (\S+ \S+ UTC)`)

// restored restores the keyspace ks as of a given time under another name, and returns the marker of that time.
func (c *cluster) restored(i int, from, as, at string) time.Time {
	c.t.Helper()
	out := c.must(i, "restore", "ks", "--as", as, "--from", from, "--at", at, "--rate", "0")
	mark, err := time.Parse(timeForm, restoredAs.FindStringSubmatch(out)[1])
	if err != nil {
		c.t.Fatal(err)
	}
	return mark
}

// TestFollow archives three nodes while writers send batches across the partitions of three tables. Partitions split
// and merge. The test kills a node that leads some of the partitions, and it kills the archiver. Every time that the
// list of the archive reports must be restorable. Each batch must be either complete or missing. All batches
// acknowledged before the restored time must exist, and no batch that started later may exist. No event may cause a
// gap in the archive.
func TestFollow(t *testing.T) {
	c := start(t, 3, 4)
	c.do(schema...)
	to := filepath.Join(c.base, "archive")
	args := []string{"--to", to, "--every", "200ms", "--rate", "0"}
	d := c.keep(6)
	d.more(50)
	f := c.follow(0, args...)
	f.hears("completed", 1)
	first := time.Now()
	var times []time.Time
	phase := func() {
		d.more(30)
		times = append(times, time.Now())
		d.more(20)
		t.Logf("phase %d ended at %s", len(times), time.Now().UTC().Format(time.TimeOnly))
	}
	phase()
	for _, table := range []string{"ks.a", "ks.b"} {
		id := c.partitions(0, table)[1]
		c.must(0, "partition", "split", table, id, "--at=-2000000000000000000", "--now", "--wait")
	}
	phase()
	f.kill()
	ids := c.partitions(0, "ks.b")
	c.must(0, "partition", "merge", "ks.b", ids[1], ids[2], "--now", "--wait")
	f = c.follow(0, args...)
	f.hears("resuming from", 1)
	phase()
	c.nodes[2].Kill()
	c.restart(2)
	phase()
	ids = c.partitions(0, "ks.a")
	c.must(0, "partition", "merge", "ks.a", ids[0], ids[1], "--now", "--wait")
	c.must(0, "partition", "split", "ks.a", ids[0], "--now", "--wait")
	phase()
	d.end()
	end := time.Now()
	eventually.True(t, "complete archive", func() bool {
		r := c.ranges(to)
		return len(r) > 0 && r[len(r)-1][1].After(end)
	})
	f.stop()
	t.Log(f.out.String())
	if n := stored(to, "backups") - stored(to, "backups/log"); n != 2 { // a manifest and the archiver's record
		t.Errorf("%d files in addition to the log: the log had a gap that required a new base backup", n)
	}
	one := start(t, 1, 3)
	ranges := one.ranges(to)
	for i, at := range times {
		for _, r := range ranges { // markers do not exist while no archiver runs or a partition has no leader
			if at.Before(r[0]) {
				break
			}
			at = earlier(times[i], r[1])
		}
		name := "at" + strconv.Itoa(i)
		mark := one.restored(0, to, name, at.UTC().Format(time.RFC3339Nano))
		if behind := at.Sub(mark); behind < 0 || behind > 5*time.Second || mark.Before(first.Add(-5*time.Second)) {
			t.Errorf("requested %s, restored %s", at, mark)
		}
		d.check(one, name, mark)
	}
	d.check(one, "newest", one.restored(0, to, "newest", "newest"))
	if n, all := len(one.rows("newest.a")), d.total.Load(); int64(n) < all {
		t.Errorf("%d batches before the newest marker, %d acknowledged", n, all)
	}
	if out, err := c.tool(t.Context(), "backup", "verify", to); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
