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
)

// Follower archives a cluster for as long as it runs: it takes marks, fetches what has changed between them, and keeps
// that as segments of a log, beside backups of some of the marks (bases), which the log goes on from.
//
//	mark ── mark ── mark ── mark ── mark ── ...     every second: a short fence, and a question for what came since
//	└ segment ────────┘ └ segment ────── ...        every ten seconds
//	base (read while marks go on)                   once a day, and where the log has a hole
type Follower struct {
	Door   Door
	Target Target
	// Every is the time between marks, BaseEvery the time between bases. Keep is for how long every mark can be
	// restored; 0: forever.
	Every, BaseEvery, Keep time.Duration
	// Parallel and Rate are those of the Maker of bases.
	Parallel int
	Rate     int64
	Now      func() time.Time
	// Say hears what an operator should know, in words; Told how far the archive is, after every mark. Both may be nil.
	Say  func(text string)
	Told func(p Followed)

	id   string
	tip  *tip
	open *segment
	// bases are under way, based hears of those that have ended; newest is the moment of the newest one that is
	// complete, begun when the last one was begun. want says why there has to be another one.
	bases  int
	based  chan based
	newest time.Time
	begun  time.Time
	want   string
	stored time.Time
	bytes  int64
	// ailing is when trouble was told last, since when entries could not be fetched; zero while all is well.
	ailing, starving time.Time
}

// Followed is how far an archive is.
type Followed struct {
	// Marked is the newest mark, Stored the newest one that is at the place; Still for how long writers waited.
	Marked, Stored time.Time
	Still          time.Duration
	// Stored bytes since the beginning, and whether a base is being read.
	Bytes int64
	Bases int
}

// based is the end of a base.
type based struct {
	moment time.Time
	err    error
}

// tip is the newest mark of the log, from which the next one goes on.
type tip struct {
	cluster, run, described string
	moment                  time.Time
	still                   time.Duration
	applied                 map[uint64]uint64
	tables                  string
	// records are the cluster's, nil if they were not sent yet.
	records []byte
	// sum is the digest of the segment before the one that is open.
	sum string
}

const (
	// segmentBytes and segmentTime are from when on a segment is stored.
	segmentBytes = 8 << 20
	segmentTime  = 10 * time.Second
	// orderWait is how long a mark, or a question for entries, may take; ailPause the pause after one that failed.
	orderWait = 20 * time.Second
	ailPause  = time.Second
	// ailSay is how often the same trouble is told again.
	ailSay = 30 * time.Second
	// starveMax is for how long entries are asked for that a node may have that does not answer.
	starveMax = 30 * time.Second
	// basesMax bounds the bases under way, basePause is the least time between the beginnings of two.
	basesMax  = 2
	basePause = 10 * time.Second
	// ownerName is where the one who follows says so: whoever began last.
	ownerName = "backups/follower"
	// finishWait is how long the end of a follower may take.
	finishWait = 30 * time.Second
)

// ErrTaken says that somebody else archives to the same place.
var ErrTaken = errors.New("another process has begun to archive to this place: only one can, and it goes on from here")

// Run archives until the context ends, and stores what it has then. It returns an error if it cannot go on.
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
	if f.Say != nil {
		f.Say(fmt.Sprintf(format, args...))
	}
}

// pause waits, and hears of bases that have ended meanwhile. It returns an error if the context has ended.
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
		f.say("base as of %s is complete", b.moment.Format(TimeFormat))
		f.prune(ctx)
	case ctx.Err() == nil:
		f.say("base as of %s failed, another one follows: %v", b.moment.Format(TimeFormat), b.err)
		f.want = "the one before failed"
	}
}

// TimeFormat is how moments are said.
const TimeFormat = "2006-01-02 15:04:05.000 MST"

// prune removes what need not be kept any more. Nothing is read from files meanwhile, unless a base is.
func (f *Follower) prune(ctx context.Context) {
	if f.Keep == 0 || f.bases > 0 {
		return
	}
	p := &Pruner{Target: f.Target, Now: f.Now, Keep: f.Keep}
	if err := p.Prune(ctx); err != nil && ctx.Err() == nil {
		f.say("what is older than %s was not removed: %v", f.Keep, err)
	} else if p.Removed > 0 {
		f.say("files that are not needed any more were removed: %d", p.Removed)
	}
}

// claim binds the place to the cluster that is archived, before anything is written to it. It asks the nodes until one
// answers.
func (f *Follower) claim(ctx context.Context) error {
	for ctx.Err() == nil {
		taken, err := f.mark(ctx)
		if err == nil {
			drop(ctx, f.Door, taken.ID)
			return claim(ctx, f.Target, taken.Cluster)
		}
		if err := f.ail(ctx, "no mark could be taken", err); err != nil {
			return err
		}
	}
	return nil
}

// resume goes on from what is stored, if there is something, and says whose the place is.
func (f *Follower) resume(ctx context.Context) error {
	if err := f.Target.Put(ctx, ownerName, []byte(f.id)); err != nil {
		return err
	}
	l, err := LoadLog(ctx, f.Target)
	if err != nil {
		return err
	}
	f.want = "there is none"
	if len(l.Chains) == 0 {
		return nil
	}
	c := l.Chains[len(l.Chains)-1]
	s, sum, err := readSegment(ctx, f.Target, c[len(c)-1])
	if err != nil {
		f.say("the log begins anew: %v", err)
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
	f.say("going on from %s", f.stored.Format(TimeFormat))
	return nil
}

// reach notes where partitions are.
func (t *tip) reach(list []archive.Partition) {
	t.applied = make(map[uint64]uint64, len(list))
	for _, p := range list {
		t.applied[p.ID] = p.Applied
	}
}

// step takes a mark. It returns errors after which the archive cannot go on; others it tells, and waits a while.
func (f *Follower) step(ctx, reading context.Context) error {
	taken, err := f.mark(ctx)
	if err != nil {
		return f.ail(ctx, "no mark could be taken", err)
	}
	defer func() {
		if taken != nil {
			drop(ctx, f.Door, taken.ID)
		}
	}()
	c, hole, err := f.since(ctx, taken)
	if err != nil {
		return f.ail(ctx, "what has changed could not be fetched", err)
	}
	if hole != "" || taken.Time.Sub(f.tip.moment) > atomMax { // so that names show that there was no mark
		if err := f.store(ctx); err != nil {
			return err
		}
	}
	if hole != "" {
		if f.tip != nil {
			f.say("the log begins anew at %s: %s", taken.Time.Format(TimeFormat), hole)
		}
		f.want, f.tip, c = hole, nil, new(changes)
	}
	if err := f.enter(taken, c); err != nil {
		return err
	}
	f.ailing, f.starving = time.Time{}, time.Time{}
	if f.want == "" && taken.Time.Sub(f.newest) >= f.BaseEvery && f.bases == 0 {
		f.want = "the newest one is old"
	}
	if f.want != "" && f.bases < basesMax && time.Since(f.begun) >= basePause {
		f.base(reading, taken)
		taken = nil // the base drops it
	}
	if hole != "" || f.open.full() { // a base without a log to go on from it would be of no use after a crash
		if err := f.store(ctx); err != nil {
			return err
		}
	}
	if f.Told != nil {
		f.Told(Followed{Marked: f.tip.moment, Stored: f.stored, Still: f.tip.still, Bytes: f.bytes, Bases: f.bases})
	}
	return nil
}

// ail tells of trouble, at times, and waits a moment.
func (f *Follower) ail(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil && time.Since(f.ailing) >= ailSay {
		f.ailing = time.Now()
		f.say("%s: %v", what, err)
	}
	_ = f.pause(ctx, ailPause)
	return nil
}

// mark takes a moment of the cluster.
func (f *Follower) mark(ctx context.Context) (*archive.Snapshot, error) {
	var known []string
	if f.tip != nil && f.tip.records != nil {
		known = []string{f.tip.described}
	}
	taken := new(archive.Snapshot)
	if err := ask(ctx, f.Door, "backup/mark", archive.FileRequest{KnownFiles: known}, taken); err != nil {
		return nil, err
	}
	switch {
	case len(taken.Nodes) == 0:
		return nil, errors.New("the node is of an older build, which keeps no journal: upgrade all nodes first")
	case taken.Metadata == nil && len(known) == 0:
		return nil, errors.New("the node does not say what the cluster is")
	}
	if taken.Metadata == nil {
		taken.Metadata = f.tip.records // it was known
	}
	taken.Time = taken.Time.Truncate(time.Millisecond)   // as it is said, and asked for
	if f.tip != nil && !taken.Time.After(f.tip.moment) { // another node was asked, or a clock was set back
		taken.Time = f.tip.moment.Add(time.Millisecond)
	}
	return taken, nil
}

// ask gives an order of a question in JSON and answers with JSON.
func ask(ctx context.Context, d Door, what string, question, answer any) error {
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
		return fmt.Errorf("the node's answer cannot be read: %w", err)
	}
	return nil
}

// drop lets a moment go. It is dropped by itself, too, later.
func drop(ctx context.Context, d Door, id string) {
	body, _ := json.Marshal(archive.FileRequest{ID: id})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), orderWait)
	defer cancel()
	_, _ = d.Order(ctx, "backup/drop", body)
}

// base reads the state of a mark while marks go on.
func (f *Follower) base(ctx context.Context, taken *archive.Snapshot) {
	f.say("base as of %s begins: %s", taken.Time.Format(TimeFormat), f.want)
	f.bases++
	f.begun, f.want = time.Now(), ""
	k := &Maker{Door: f.Door, Target: f.Target, Parallel: f.Parallel, Rate: f.Rate, Now: f.Now}
	go func() {
		_, err := k.Base(ctx, taken)
		f.based <- based{taken.Time, err}
	}()
}
