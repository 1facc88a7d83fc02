// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// NodeClient is a node of a cluster. It executes requests such as backup/begin. An implementation must be safe for
// concurrent use.
type NodeClient interface {
	Order(ctx context.Context, what string, body []byte) ([]byte, error)
}

// Progress is the progress of an operation.
type Progress struct {
	// Done and All are numbers of bytes before compression, if they are known. All is 0 if it is unknown.
	Done, All int64
	// Files is the number of processed files. Sent is the number of stored or restored files. SentBytes is the total
	// size of these files.
	Files, Sent int
	SentBytes   int64
}

// Display shows the progress of an operation. Calls are sequential.
type Display interface{ Show(p Progress) }

// Maker creates a backup.
type Maker struct {
	Node   NodeClient
	Target Target
	// Parallel is the number of partitions that are read concurrently. The value 0 selects 4. Rate is the maximum read
	// rate in bytes per second, before compression. The value 0 means unlimited.
	Parallel int
	Rate     int64
	// Display shows the progress. It may be nil.
	Display Display
	// Clock determines the times of backups.
	Clock sched.Clock

	mu       sync.Mutex
	progress Progress
	pace     pace
	pending  int
	id       string
}

const (
	// begunMax is the maximum number of restarts of a backup. A backup restarts if a node has lost its snapshot.
	begunMax = 5
	// pageTries is the maximum number of requests for a file. pagePause is the pause between two of these requests.
	pageTries = 6
	pagePause = 500 * time.Millisecond
	// knownSent is the number of known file names that a request for the next file contains.
	knownSent = 16
	// IDFormat is the time format that backup IDs use.
	IDFormat = "20060102T150405.000Z"
)

// Make creates a backup and returns its manifest. If Make fails or the process is killed, the next backup reuses the
// stored files. If a node has lost the snapshot because of a restart, Make starts again with a new snapshot.
func (k *Maker) Make(ctx context.Context) (*archive.Manifest, *archive.Snapshot, error) {
	var err error
	for range begunMax {
		var m *archive.Manifest
		var taken *archive.Snapshot
		if m, taken, err = k.try(ctx); err == nil || ctx.Err() != nil {
			return m, taken, err
		}
		var lost *lostError
		if !errors.As(err, &lost) {
			return nil, nil, err
		}
	}
	return nil, nil, err
}

// lostError means that the snapshot no longer exists.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

func (k *Maker) try(ctx context.Context) (*archive.Manifest, *archive.Snapshot, error) {
	before, err := k.stored(ctx)
	if err != nil {
		return nil, nil, err
	}
	answer, err := k.Node.Order(ctx, "backup/begin", nil)
	if err != nil {
		return nil, nil, err
	}
	taken := new(archive.Snapshot)
	if err := json.Unmarshal(answer, taken); err != nil {
		return nil, nil, fmt.Errorf("cannot decode the response of the node: %w", err)
	}
	m, err := k.read(ctx, taken, before, false)
	return m, taken, err
}

// Base creates a backup from an existing snapshot, such as a restore point of an archive. It completes the table list
// of the snapshot.
func (k *Maker) Base(ctx context.Context, taken *archive.Snapshot) (*archive.Manifest, error) {
	before, err := k.stored(ctx)
	if err != nil {
		drop(ctx, k.Node, taken.ID)
		return nil, err
	}
	return k.read(ctx, taken, before, true)
}

// read creates a backup from a snapshot and releases the snapshot.
func (k *Maker) read(ctx context.Context, taken *archive.Snapshot, before []*archive.Manifest, followed bool) (
	*archive.Manifest, error) {
	defer drop(ctx, k.Node, taken.ID)
	if err := claim(ctx, k.Target, taken.Cluster); err != nil {
		return nil, errors.Join(err, k.abandon(ctx))
	}
	m := &archive.Manifest{ID: k.id, Time: taken.Time, Cluster: taken.Cluster, Software: taken.Software,
		Tables: taken.Tables, Archived: followed}
	m.Metadata = archive.File{Name: archive.FileName(taken.Metadata), Bytes: int64(len(taken.Metadata))}
	err := archive.EachRecord(taken.Metadata, func(_, _ []byte) error { m.Metadata.Records++; return nil })
	if err == nil {
		err = k.store(ctx, m.Metadata.Name, archive.Pack(taken.Metadata))
	}
	if err == nil {
		err = k.partitions(ctx, taken, before)
	}
	if err == nil {
		err = k.complete(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	m.Completed = k.Clock.Wall().UTC()
	data, err := m.Encode()
	if err == nil {
		err = claim(ctx, k.Target, m.Cluster)
	}
	if err == nil {
		err = k.Target.Put(ctx, manifestName(m.ID), data)
	}
	if err != nil {
		return nil, err
	}
	return m, k.forget(ctx)
}

// complete returns an error if a file is missing. Another process may have removed a file to which no manifest
// referred.
func (k *Maker) complete(ctx context.Context, m *archive.Manifest) error {
	names, err := k.Target.List(ctx, "files/")
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[path.Base(name)] = true
	}
	m.Files(func(f archive.File) {
		if !there[f.Name] && err == nil {
			err = &lostError{fmt.Errorf("file %s was deleted during the backup", f.Name)}
		}
	})
	return err
}

// forget removes the progress records of this backup. It also removes the superseded records of earlier incomplete
// backups.
func (k *Maker) forget(ctx context.Context) error {
	names, err := k.Target.List(ctx, "pending/")
	for _, name := range names {
		if path.Base(path.Dir(name)) <= k.id {
			err = cmp.Or(err, k.Target.Remove(ctx, name))
		}
	}
	return err
}

// abandon removes the record of the backup in progress.
func (k *Maker) abandon(ctx context.Context) error {
	return k.Target.Remove(ctx, pendingName(k.id, 0))
}

func pendingName(id string, n int) string { return fmt.Sprintf("pending/%s/%08d", id, n) }

// begin chooses the ID of the backup. It records that the backup is in progress, which protects the backup's files
// from removal.
func (k *Maker) begin(ctx context.Context) error {
	k.id, k.pending, k.progress = k.Clock.Wall().UTC().Format(IDFormat), 0, Progress{}
	data, err := (&archive.Manifest{ID: k.id}).Encode()
	if err != nil {
		return err
	}
	return k.Target.Put(ctx, pendingName(k.id, 0), data)
}

// stored starts a backup. It returns the manifests of the newest backup and of the incomplete backups, whose files do
// not need to be transferred.
func (k *Maker) stored(ctx context.Context) (out []*archive.Manifest, err error) {
	if err := k.begin(ctx); err != nil {
		return nil, err
	}
	ids, err := List(ctx, k.Target)
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		m, err := Load(ctx, k.Target, ids[len(ids)-1])
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	names, err := k.Target.List(ctx, "pending/")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := k.Target.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if m, err := archive.Decode(data); err == nil { // a record that cannot be decoded is ignored
			out = append(out, m)
		}
	}
	return out, nil
}

// job is a partition that will be read.
type job struct {
	table *archive.Table
	part  *archive.Partition
}

// partitions reads all partitions and fills in their files.
func (k *Maker) partitions(ctx context.Context, taken *archive.Snapshot, before []*archive.Manifest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan job)
	var working sync.WaitGroup
	for range max(k.Parallel, 1) {
		working.Go(func() {
			for j := range jobs {
				if err := k.partition(ctx, taken, j, before); err != nil {
					cancel(fmt.Errorf("table %s.%s: %w", j.table.Keyspace, j.table.Name, err))
				}
			}
		})
	}
	for i := range taken.Tables {
		t := &taken.Tables[i]
		for p := range t.Partitions {
			select {
			case jobs <- job{t, &t.Partitions[p]}:
			case <-ctx.Done():
			}
		}
	}
	close(jobs)
	working.Wait()
	return context.Cause(ctx)
}

// partition reads one partition unless the partition has not changed since an earlier backup.
func (k *Maker) partition(ctx context.Context, taken *archive.Snapshot, j job, before []*archive.Manifest) error {
	trails := make([]trail, 0, len(before))
	for _, m := range before {
		if m.Cluster != taken.Cluster {
			continue
		}
		if files, ok := same(m, j); ok && k.all(ctx, files) {
			j.part.Files, j.part.Node = files, ""
			k.tell(func(p *Progress) {
				for _, f := range files {
					p.Files++
					p.Done += f.Bytes
				}
			})
			return nil
		}
		trails = append(trails, follow(m, j))
	}
	asked := archive.FileRequest{ID: taken.ID, Node: j.part.Node, Partition: j.part.ID}
	for {
		asked.KnownFiles = asked.KnownFiles[:0]
		for i := range trails {
			asked.KnownFiles = trails[i].ahead(asked.KnownFiles, asked.From)
		}
		page, err := k.page(ctx, &asked)
		if err != nil {
			return err
		}
		if page.File.Name == "" {
			break
		}
		if err := k.take(ctx, &asked, page); err != nil {
			return err
		}
		j.part.Files = append(j.part.Files, page.File)
		if asked.From = page.Next; len(page.Next) == 0 {
			break
		}
	}
	j.part.Node = ""
	return k.note(ctx, taken, j)
}

// take stores a file if the file does not exist.
func (k *Maker) take(ctx context.Context, asked *archive.FileRequest, page *archive.FileResponse) error {
	if page.Data == nil {
		has, err := k.Target.Has(ctx, fileName(page.File.Name))
		if err != nil {
			return err
		}
		if !has { // another process has removed the file
			again := *asked
			again.KnownFiles = nil
			if page, err = k.page(ctx, &again); err != nil {
				return err
			}
		}
	}
	sent := page.Data != nil
	if sent {
		if _, err := archive.Unpack(page.File.Name, page.Data); err != nil {
			return err
		}
		if err := k.store(ctx, page.File.Name, page.Data); err != nil {
			return err
		}
	}
	k.tell(func(p *Progress) {
		p.Files++
		p.Done += page.File.Bytes
		if sent {
			p.Sent++
			p.SentBytes += int64(len(page.Data))
		}
	})
	return k.pace.wait(ctx, k.Rate, page.File.Bytes)
}

func (k *Maker) store(ctx context.Context, name string, data []byte) error {
	has, err := k.Target.Has(ctx, fileName(name))
	if err == nil && !has {
		err = k.Target.Put(ctx, fileName(name), data)
	}
	return err
}

// page requests a file. If the node does not respond, page tries again.
func (k *Maker) page(ctx context.Context, asked *archive.FileRequest) (page *archive.FileResponse, err error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	for range pageTries {
		var answer []byte
		if answer, err = k.Node.Order(ctx, "backup/page", body); err == nil {
			return archive.DecodeFileResponse(answer)
		}
		if isGone(err) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pagePause):
		}
	}
	return nil, &lostError{err}
}

// isGone reports whether a node no longer has the snapshot. It searches the text of the error, because nodes send
// errors as texts.
func isGone(err error) bool {
	return bytes.Contains([]byte(err.Error()), []byte("snapshot set has been dropped"))
}

// note records that a partition is complete. If this backup is not completed, a later backup can reuse the partition.
func (k *Maker) note(ctx context.Context, taken *archive.Snapshot, j job) error {
	k.mu.Lock()
	k.pending++
	n := k.pending
	k.mu.Unlock()
	m := archive.Manifest{ID: k.id, Time: taken.Time, Cluster: taken.Cluster, Tables: []archive.Table{
		{Keyspace: j.table.Keyspace, Name: j.table.Name, ID: j.table.ID, Partitions: []archive.Partition{*j.part}},
	}}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return k.Target.Put(ctx, pendingName(k.id, n), data)
}

// all reports whether all files exist.
func (k *Maker) all(ctx context.Context, files []archive.File) bool {
	for _, f := range files {
		if has, err := k.Target.Has(ctx, fileName(f.Name)); err != nil || !has {
			return false
		}
	}
	return true
}

func (k *Maker) tell(change func(p *Progress)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.progress)
	if k.Display != nil {
		k.Display.Show(k.progress)
	}
}
