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

// Restorer restores a backup, or some of the tables in a backup.
type Restorer struct {
	Node     NodeClient
	Target   Target
	Manifest *archive.Manifest
	// Point, if not nil, is the restore point to which Manifest belongs. The changes since the base of this restore
	// point are also restored.
	Point *Point
	// Tables lists the tables to restore with their new names (see Select).
	Tables []archive.RestoredTable
	// Roles means that missing roles are also restored.
	Roles bool
	// Parallel is the number of files that are sent concurrently. Rate is the maximum rate in bytes per second, before
	// compression. The value 0 means unlimited.
	Parallel int
	Rate     int64
	// Display shows the progress. It may be nil.
	Display Display

	mu       sync.Mutex
	progress Progress
	pace     pace
	// batches maps keys to rows of system.batches. It contains the batches that were in progress at the time of the
	// snapshot, if they are known. applied contains the parts of these batches that the rows include.
	batches map[string][]byte
	applied map[string]bool
}

// Restore restores the tables. After a failure or a crash, Restore can be called again. It overwrites existing data
// with the same values.
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
		return fmt.Errorf("cannot decode the response of the node: %w", err)
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

// Finished reports whether Restore has completed batches that were in progress at the time of the snapshot.
func (r *Restorer) Finished() bool { return len(r.batches) > 0 }

func (r *Restorer) order(ctx context.Context, what string, o *archive.Restore) ([]byte, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return r.Node.Order(ctx, what, body)
}

// piece is a file with rows of a table. The table is given by its original ID.
type piece struct {
	was  uint32
	file archive.File
	data func(ctx context.Context) ([]byte, error)
}

// stored returns the files of a backup as pieces.
func (r *Restorer) stored(was uint32, files []archive.File) (pieces []piece) {
	for _, f := range files {
		r.progress.All += f.Bytes
		pieces = append(pieces, piece{was, f, func(ctx context.Context) ([]byte, error) {
			return r.Target.Get(ctx, fileName(f.Name))
		}})
	}
	return pieces
}

// rows sends files to the restored tables. The map is contains the new ID of each table by its original ID.
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

// named returns the original name of a table.
func (r *Restorer) named(was uint32) string {
	for _, t := range r.Manifest.Tables {
		if t.ID == was {
			return t.Keyspace + "." + t.Name
		}
	}
	return fmt.Sprint(was)
}

// send sends the rows of a file.
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
	if err := r.page(ctx, "restore/rows", &page); err != nil {
		return err
	}
	r.mu.Lock()
	r.progress.Files++
	r.progress.Sent++
	r.progress.Done += j.file.Bytes
	r.progress.SentBytes += int64(len(data))
	if r.Display != nil {
		r.Display.Show(r.progress)
	}
	r.mu.Unlock()
	return r.pace.wait(ctx, r.Rate, j.file.Bytes)
}

func (r *Restorer) page(ctx context.Context, what string, page *archive.FileResponse) error {
	body, err := page.Append(nil)
	if err == nil {
		_, err = r.Node.Order(ctx, what, body)
	}
	return err
}
