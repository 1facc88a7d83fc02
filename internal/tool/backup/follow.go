// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// Follower archives a running cluster. It takes restore points (marks), fetches the changes between the restore
// points, and stores the changes as segments of a log. It also stores backups of some restore points (bases). The log
// continues from these backups.
//
//	mark ── mark ── mark ── mark ── mark ── ...     every second: a short fence, and a request for the changes
//	└ segment ────────┘ └ segment ────── ...        every ten seconds
//	base (read while marks continue)                once a day, and after a gap in the log
type Follower struct {
	Node   NodeClient
	Target Target
	// Every is the interval between two restore points. BaseEvery is the interval between two bases. Keep is the
	// retention period of restore points. The value 0 means unlimited.
	Every, BaseEvery, Keep time.Duration
	// Parallel and Rate are passed to the Maker of bases.
	Parallel int
	Rate     int64
	Clock    sched.Clock
	Display  ArchiveDisplay

	id   string
	tip  *tip
	open *segment
	// bases is the number of bases in progress. based receives completed bases. newest is the time of the newest
	// complete base. begun is the start time of the last base. want is the reason why another base is needed.
	bases  int
	based  chan based
	newest time.Time
	begun  time.Time
	want   string
	stored time.Time
	bytes  int64
	// ailing is the time of the last message about a failure. starving is the time since which entries could not be
	// fetched. It is zero if all entries could be fetched.
	ailing, starving time.Time
}

// ArchiveDisplay shows the progress of an archive. Its methods may be called on any goroutine.
type ArchiveDisplay interface {
	// Say shows a message for operators.
	Say(text string)
	// Show shows the progress after a restore point.
	Show(p Followed)
}

// Followed is the progress of an archive.
type Followed struct {
	// Marked is the newest restore point. Stored is the newest restore point in the repository. Still is the time for
	// which writes were paused.
	Marked, Stored time.Time
	Still          time.Duration
	// Bytes is the number of bytes stored since the start. Bases is the number of bases in progress.
	Bytes int64
	Bases int
}

// based is the result of a base.
type based struct {
	moment time.Time
	err    error
}

// tip is the newest restore point of the log, from which the next restore point continues.
type tip struct {
	cluster, run, described string
	moment                  time.Time
	still                   time.Duration
	applied                 map[uint64]uint64
	tables                  string
	// records is the metadata of the cluster. It is nil until the metadata has been received.
	records []byte
	// sum is the digest of the segment that precedes the open segment.
	sum string
}

const (
	// segmentBytes is the size at which a segment is stored. segmentTime is the age at which it is stored.
	segmentBytes = 8 << 20
	segmentTime  = 10 * time.Second
	// orderWait is the timeout of a request. ailPause is the pause after a failure.
	orderWait = 20 * time.Second
	ailPause  = time.Second
	// ailSay is the minimum interval between two messages about the same failure.
	ailSay = 30 * time.Second
	// starveMax is the maximum time for which the follower requests entries that only an unreachable node may have.
	starveMax = 30 * time.Second
	// basesMax is the maximum number of concurrent bases. basePause is the minimum interval between their start times.
	basesMax  = 2
	basePause = 10 * time.Second
	// ownerName is the name of the file that identifies the active archiver. The archiver that was started last is
	// active.
	ownerName = "backups/follower"
	// finishWait is the maximum time for the completion of an archive.
	finishWait = 30 * time.Second
)

// ErrTaken reports that another process has started to archive to the same repository.
var ErrTaken = errors.New("another process has started to archive to this repository")

// Run archives the cluster until the context ends. It then stores the remaining changes. If it cannot continue, Run
// returns an error.
func (f *Follower) Run(ctx context.Context) error {
	f.id, f.based = uuid.NewString(), make(chan based, basesMax)
	if err := f.claim(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := f.resume(ctx); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		for ; f.bases > 0; f.bases-- {
			<-f.based
		}
	}()
	next := time.Now()
	for {
		if err := f.step(ctx, reading); err != nil {
			return err
		}
		if next = next.Add(f.Every); next.Before(time.Now()) {
			next = time.Now()
		}
		if f.pause(ctx, time.Until(next)) != nil {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWait)
	defer cancel()
	return f.store(last)
}

func (f *Follower) say(format string, args ...any) {
	f.Display.Say(fmt.Sprintf(format, args...))
}

// pause waits and processes completed bases. It returns an error if the context has ended.
func (f *Follower) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	for {
		select {
		case b := <-f.based:
			f.bases--
			f.baseEnded(ctx, b)
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-f.based:
			f.bases--
			f.baseEnded(ctx, b)
		case <-timer.C:
			return nil
		}
	}
}

func (f *Follower) baseEnded(ctx context.Context, b based) {
	switch {
	case b.err == nil:
		if b.moment.After(f.newest) {
			f.newest = b.moment
		}
		f.say("full backup of %s completed", b.moment.Format(TimeFormat))
		f.prune(ctx)
	case ctx.Err() == nil:
		f.say("full backup of %s failed and will be repeated: %v", b.moment.Format(TimeFormat), b.err)
		f.want = "the previous full backup failed"
	}
}

// TimeFormat is the format of times in messages.
const TimeFormat = "2006-01-02 15:04:05.000 MST"

// prune removes data that has expired. At the same time, only bases may read files.
func (f *Follower) prune(ctx context.Context) {
	if f.Keep == 0 || f.bases > 0 {
		return
	}
	p := &Pruner{Target: f.Target, Clock: f.Clock, Keep: f.Keep}
	if err := p.Prune(ctx); err != nil && ctx.Err() == nil {
		f.say("cannot delete data older than %s: %v", f.Keep, err)
	} else if p.Removed > 0 {
		f.say("deleted %d unreferenced files", p.Removed)
	}
}

// claim binds the repository to the archived cluster before any other file is written. It retries until a node
// responds.
func (f *Follower) claim(ctx context.Context) error {
	for ctx.Err() == nil {
		taken, err := f.mark(ctx)
		if err == nil {
			drop(ctx, f.Node, taken.ID)
			return claim(ctx, f.Target, taken.Cluster)
		}
		if err := f.ail(ctx, "cannot create a restore point", err); err != nil {
			return err
		}
	}
	return nil
}

// resume continues the stored log if a log exists. It registers this process as the active archiver.
func (f *Follower) resume(ctx context.Context) error {
	if err := f.Target.Put(ctx, ownerName, []byte(f.id)); err != nil {
		return err
	}
	l, err := LoadLog(ctx, f.Target)
	if err != nil {
		return err
	}
	f.want = "no full backup exists"
	if len(l.Chains) == 0 {
		return nil
	}
	c := l.Chains[len(l.Chains)-1]
	s, sum, err := readSegment(ctx, f.Target, c[len(c)-1])
	if err != nil {
		f.say("starting a new log: %v", err)
		return nil
	}
	f.tip = &tip{cluster: s.Cluster, run: s.Incarnation, described: s.MetadataFile, moment: c.Last(), sum: sum}
	f.tip.reach(s.Partitions)
	f.stored = c.Last()
	for _, m := range l.Bases {
		if !m.Time.Before(c.First()) {
			f.newest, f.want = m.Time, ""
		}
	}
	f.say("resuming from %s", f.stored.Format(TimeFormat))
	return nil
}

// reach records the nodes of partitions.
func (t *tip) reach(list []archive.Partition) {
	t.applied = make(map[uint64]uint64, len(list))
	for _, p := range list {
		t.applied[p.ID] = p.Applied
	}
}

// step takes a restore point. If the archive cannot continue after an error, step returns the error.
func (f *Follower) step(ctx, reading context.Context) error {
	taken, err := f.mark(ctx)
	if err != nil {
		return f.ail(ctx, "cannot create a restore point", err)
	}
	defer func() {
		if taken != nil {
			drop(ctx, f.Node, taken.ID)
		}
	}()
	c, hole, err := f.since(ctx, taken)
	if err != nil {
		return f.ail(ctx, "cannot fetch changes", err)
	}
	if hole != "" || taken.Time.Sub(f.tip.moment) > atomMax { // the names of the segments show the gap
		if err := f.store(ctx); err != nil {
			return err
		}
	}
	if hole != "" {
		if f.tip != nil {
			f.say("starting a new log at %s: %s", taken.Time.Format(TimeFormat), hole)
		}
		f.want, f.tip, c = hole, nil, new(changes)
	}
	if err := f.enter(taken, c); err != nil {
		return err
	}
	f.ailing, f.starving = time.Time{}, time.Time{}
	if f.want == "" && taken.Time.Sub(f.newest) >= f.BaseEvery && f.bases == 0 {
		f.want = "the newest full backup is old"
	}
	if f.want != "" && f.bases < basesMax && time.Since(f.begun) >= basePause {
		f.base(reading, taken)
		taken = nil // base releases the snapshot
	}
	if hole != "" || f.open.full() { // a base without a subsequent log would be useless after a crash
		if err := f.store(ctx); err != nil {
			return err
		}
	}
	f.Display.Show(Followed{Marked: f.tip.moment, Stored: f.stored, Still: f.tip.still, Bytes: f.bytes,
		Bases: f.bases})
	return nil
}

// ail reports a failure and waits. It limits the rate of the messages.
func (f *Follower) ail(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil && time.Since(f.ailing) >= ailSay {
		f.ailing = time.Now()
		f.say("%s: %v", what, err)
	}
	_ = f.pause(ctx, ailPause)
	return nil
}

// mark takes a snapshot of the cluster for a restore point.
func (f *Follower) mark(ctx context.Context) (*archive.Snapshot, error) {
	var known []string
	if f.tip != nil && f.tip.records != nil {
		known = []string{f.tip.described}
	}
	taken := new(archive.Snapshot)
	if err := ask(ctx, f.Node, "backup/mark", archive.FileRequest{KnownFiles: known}, taken); err != nil {
		return nil, err
	}
	switch {
	case len(taken.Nodes) == 0:
		return nil, errors.New("the node runs an older version without a change buffer. Upgrade all nodes first")
	case taken.Metadata == nil && len(known) == 0:
		return nil, errors.New("the node does not report the cluster ID")
	}
	if taken.Metadata == nil {
		taken.Metadata = f.tip.records // unchanged since the last restore point
	}
	taken.Time = taken.Time.Truncate(time.Millisecond)   // times in messages and requests have this precision
	if f.tip != nil && !taken.Time.After(f.tip.moment) { // another node responded, or a clock was set back
		taken.Time = f.tip.moment.Add(time.Millisecond)
	}
	return taken, nil
}

// ask sends a JSON request and decodes the JSON response.
func ask(ctx context.Context, d NodeClient, what string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, orderWait)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	data, err := d.Order(ctx, what, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("cannot decode the response of the node: %w", err)
	}
	return nil
}

// drop releases a snapshot. The node also releases it automatically later.
func drop(ctx context.Context, d NodeClient, id string) {
	body, _ := json.Marshal(archive.FileRequest{ID: id})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), orderWait)
	defer cancel()
	_, _ = d.Order(ctx, "backup/drop", body)
}

// base reads the state of a restore point while the follower takes further restore points.
func (f *Follower) base(ctx context.Context, taken *archive.Snapshot) {
	f.say("full backup of %s started: %s", taken.Time.Format(TimeFormat), f.want)
	f.bases++
	f.begun, f.want = time.Now(), ""
	k := &Maker{Node: f.Node, Target: f.Target, Parallel: f.Parallel, Rate: f.Rate, Clock: f.Clock}
	go func() {
		_, err := k.Base(ctx, taken)
		f.based <- based{taken.Time, err}
	}()
}
