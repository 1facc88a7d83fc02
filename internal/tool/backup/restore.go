// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// Restorer restores a backup, or some tables of it.
type Restorer struct {
	Door     Door
	Target   Target
	Manifest *archive.Manifest
	// Point, if not nil, is the point in time whose Manifest it is: what was changed since its base is restored, too.
	Point *Point
	// Tables are what is restored, with the names that they get; see Select.
	Tables []archive.RestoredTable
	// Roles says that roles that are not there are restored, too.
	Roles bool
	// Parallel is how many files are sent at a time; Rate bounds the bytes that are sent in a second, before
	// compression; 0 is no bound.
	Parallel int
	Rate     int64
	// Told hears of progress, one call at a time, if it is not nil.
	Told func(p Progress)

	mu       sync.Mutex
	progress Progress
	pace     pace
	// batches are those that are under way at the moment, as far as is known: rows of system.batches by their keys. Of
	// these, applied are the parts that the rows have.
	batches map[string][]byte
	applied map[string]bool
}

// Restore restores. It may be repeated after a failure, or after the death of the process: what is there is written
// again as it was.
func (r *Restorer) Restore(ctx context.Context) error {
	var records []byte
	var err error
	if r.Point != nil {
		records = r.Point.Records
	}
	if records == nil {
		if records, err = read(ctx, r.Target, r.Manifest.Metadata); err != nil {
			return err
		}
	}
	o := archive.Restore{Backup: r.Manifest.ID, Metadata: records, Tables: r.Tables, Roles: r.Roles}
	answer, err := r.order(ctx, "restore/tables", &o)
	if err != nil {
		return err
	}
	var made archive.Restore
	if err := json.Unmarshal(answer, &made); err != nil {
		return fmt.Errorf("the node's answer cannot be read: %w", err)
	}
	r.batches, r.applied = map[string][]byte{}, map[string]bool{}
	if err := r.listBatches(ctx); err != nil {
		return err
	}
	is := map[uint32]uint32{}
	for _, t := range made.Tables {
		is[t.OldID] = t.NewID
	}
	var pieces []piece
	for i := range r.Manifest.Tables {
		t := &r.Manifest.Tables[i]
		for _, p := range t.Partitions {
			if _, ok := is[t.ID]; ok {
				pieces = append(pieces, r.stored(t.ID, p.Files)...)
			}
		}
	}
	if err := r.rows(ctx, is, pieces); err != nil {
		return err
	}
	if r.Point != nil {
		if err := r.replay(ctx, is); err != nil {
			return err
		}
	}
	if err := r.finishBatches(ctx, is); err != nil {
		return err
	}
	_, err = r.order(ctx, "restore/end", &o)
	return err
}

// Finished reports whether Restore has finished batches that were under way at the moment.
func (r *Restorer) Finished() bool { return len(r.batches) > 0 }

func (r *Restorer) order(ctx context.Context, what string, o *archive.Restore) ([]byte, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return r.Door.Order(ctx, what, body)
}

// piece is a file with rows of the table that had that id.
type piece struct {
	was  uint32
	file archive.File
	data func(ctx context.Context) ([]byte, error)
}

// stored are files of a backup.
func (r *Restorer) stored(was uint32, files []archive.File) (pieces []piece) {
	for _, f := range files {
		r.progress.All += f.Bytes
		pieces = append(pieces, piece{was, f, func(ctx context.Context) ([]byte, error) {
			return r.Target.Get(ctx, fileName(f.Name))
		}})
	}
	return pieces
}

// rows sends files of the tables that is names, by the ids that they had.
func (r *Restorer) rows(ctx context.Context, is map[uint32]uint32, pieces []piece) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan piece)
	var working sync.WaitGroup
	for range max(r.Parallel, 1) {
		working.Go(func() {
			for j := range next {
				if err := r.send(ctx, is[j.was], j); err != nil {
					cancel(fmt.Errorf("table %s: %w", r.named(j.was), err))
				}
			}
		})
	}
	for _, j := range pieces {
		select {
		case next <- j:
		case <-ctx.Done():
		}
	}
	close(next)
	working.Wait()
	return context.Cause(ctx)
}

// named is the name that a table had.
func (r *Restorer) named(was uint32) string {
	for _, t := range r.Manifest.Tables {
		if t.ID == was {
			return t.Keyspace + "." + t.Name
		}
	}
	return fmt.Sprint(was)
}

// send has the rows of a file written.
func (r *Restorer) send(ctx context.Context, table uint32, j piece) error {
	data, err := j.data(ctx)
	if err != nil {
		return err
	}
	plain, err := archive.Unpack(j.file.Name, data)
	if err != nil {
		return err
	}
	if len(r.batches) > 0 {
		whole := binary.BigEndian.AppendUint32(nil, j.was)
		err := archive.EachRecord(plain, func(key, _ []byte) error {
			whole = append(whole[:4], key...)
			r.look(whole)
			return nil
		})
		if err != nil {
			return err
		}
	}
	page := archive.FileResponse{File: j.file, Table: table, Data: data}
	if _, err := r.page(ctx, "restore/rows", &page); err != nil {
		return err
	}
	r.mu.Lock()
	r.progress.Files++
	r.progress.Sent++
	r.progress.Done += j.file.Bytes
	r.progress.SentBytes += int64(len(data))
	if r.Told != nil {
		r.Told(r.progress)
	}
	r.mu.Unlock()
	return r.pace.wait(ctx, r.Rate, j.file.Bytes)
}

func (r *Restorer) page(ctx context.Context, what string, page *archive.FileResponse) ([]byte, error) {
	body, err := page.Append(nil)
	if err != nil {
		return nil, err
	}
	return r.Door.Order(ctx, what, body)
}
