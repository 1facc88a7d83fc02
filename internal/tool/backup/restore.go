// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// Restorer restores a backup, or some tables of it.
type Restorer struct {
	Door     Door
	Target   Target
	Manifest *archive.Manifest
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
	// batches are those that were under way at the moment; applied are their parts that the rows have.
	batches map[[16]byte]bool
	applied map[string]bool
}

// batchesOf has the atomic batches that were under way.
func batchesOf(m *archive.Manifest) *archive.Table {
	for i := range m.Tables {
		if t := &m.Tables[i]; t.Keyspace == "system" && t.Name == "batches" {
			return t
		}
	}
	return nil
}

// Restore restores. It may be repeated after a failure, or after the death of the process: what is there is written
// again as it was.
func (r *Restorer) Restore(ctx context.Context) error {
	records, err := read(ctx, r.Target, r.Manifest.Records)
	if err != nil {
		return err
	}
	o := archive.Restore{Backup: r.Manifest.ID, Records: records, Tables: r.Tables, Roles: r.Roles}
	answer, err := r.order(ctx, "restore/tables", &o)
	if err != nil {
		return err
	}
	var made archive.Restore
	if err := json.Unmarshal(answer, &made); err != nil {
		return fmt.Errorf("the node's answer cannot be read: %w", err)
	}
	r.applied = map[string]bool{}
	if err := r.listBatches(ctx); err != nil {
		return err
	}
	is := map[uint32]uint32{}
	for _, t := range made.Tables {
		is[t.Was] = t.Is
	}
	if err := r.rows(ctx, is); err != nil {
		return err
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

// rows sends the files of the tables with those ids in the backup.
func (r *Restorer) rows(ctx context.Context, is map[uint32]uint32) error {
	type job struct {
		table *archive.Table
		file  archive.File
	}
	var jobs []job
	for i := range r.Manifest.Tables {
		t := &r.Manifest.Tables[i]
		if _, ok := is[t.ID]; !ok {
			continue
		}
		for _, p := range t.Partitions {
			for _, f := range p.Files {
				jobs = append(jobs, job{t, f})
				r.progress.All += f.Bytes
			}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan job)
	var working sync.WaitGroup
	for range max(r.Parallel, 1) {
		working.Go(func() {
			for j := range next {
				if err := r.send(ctx, is[j.table.ID], j.table.ID, j.file); err != nil {
					cancel(fmt.Errorf("table %s.%s: %w", j.table.Keyspace, j.table.Name, err))
				}
			}
		})
	}
	for _, j := range jobs {
		select {
		case next <- j:
		case <-ctx.Done():
		}
	}
	close(next)
	working.Wait()
	return context.Cause(ctx)
}

// send has the rows of a file written.
func (r *Restorer) send(ctx context.Context, table, was uint32, f archive.File) error {
	data, err := r.Target.Get(ctx, fileName(f.Name))
	if err != nil {
		return err
	}
	plain, err := archive.Unpack(f.Name, data)
	if err != nil {
		return err
	}
	if err := r.look(was, plain); err != nil {
		return err
	}
	page := archive.Page{File: f, Table: table, Data: data}
	if _, err := r.page(ctx, "restore/rows", &page); err != nil {
		return err
	}
	r.mu.Lock()
	r.progress.Files++
	r.progress.Sent++
	r.progress.Done += f.Bytes
	r.progress.SentBytes += int64(len(data))
	if r.Told != nil {
		r.Told(r.progress)
	}
	r.mu.Unlock()
	return r.pace.wait(ctx, r.Rate, f.Bytes)
}

func (r *Restorer) page(ctx context.Context, what string, page *archive.Page) ([]byte, error) {
	body, err := page.Append(nil)
	if err != nil {
		return nil, err
	}
	return r.Door.Order(ctx, what, body)
}

// look notes the parts of batches under way that the rows of a file have.
func (r *Restorer) look(was uint32, plain []byte) error {
	if len(r.batches) == 0 {
		return nil
	}
	whole := binary.BigEndian.AppendUint32(nil, was)
	return archive.Each(plain, func(key, _ []byte) error {
		whole = append(whole[:4], key...)
		p, ok := keys.Parse(whole)
		if !ok || p.Kind != keys.Dedupe || len(p.Rest) != 16+8 || !r.batches[[16]byte(p.Rest)] {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.applied[archive.PartOf([16]byte(p.Rest), binary.BigEndian.Uint64(p.Rest[16:]))] = true
		return nil
	})
}

// eachBatches sends the files of the atomic batches.
func (r *Restorer) eachBatches(ctx context.Context, o *archive.Batches, take func(answer []byte) error) error {
	t := batchesOf(r.Manifest)
	if t == nil {
		return nil
	}
	for _, p := range t.Partitions {
		for _, f := range p.Files {
			data, err := r.Target.Get(ctx, fileName(f.Name))
			if err != nil {
				return err
			}
			answer, err := r.page(ctx, "restore/batches", &archive.Page{File: f, Batches: o, Data: data})
			if err == nil && take != nil {
				err = take(answer)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Restorer) listBatches(ctx context.Context) error {
	r.batches = map[[16]byte]bool{}
	return r.eachBatches(ctx, nil, func(answer []byte) error {
		var ids []string
		if err := json.Unmarshal(answer, &ids); err != nil {
			return fmt.Errorf("the node's answer cannot be read: %w", err)
		}
		for _, text := range ids {
			id, ok := batchNamed(text)
			if !ok {
				return errors.New("the node's answer cannot be read: it names no batch")
			}
			r.batches[id] = true
		}
		return nil
	})
}

func (r *Restorer) finishBatches(ctx context.Context, is map[uint32]uint32) error {
	if len(r.batches) == 0 {
		return nil
	}
	o := archive.Batches{Tables: is}
	for part := range r.applied {
		o.Applied = append(o.Applied, part)
	}
	return r.eachBatches(ctx, &o, nil)
}
