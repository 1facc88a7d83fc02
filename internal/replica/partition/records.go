// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// All records of the meta partition share one version. The batch that changes the records also stores the version under
// a separate key. While this batch is open, the replica's progress contains the version, so that one batch can contain
// several changes.

// recordsChange is the change from the previous version to version.
type recordsChange struct {
	version uint64
	put     []command.Record
}

// showRecords passes the changes of the records to the owner.
func (r *Replica) showRecords() {
	p := &r.ahead
	changes := p.changes
	p.notifiedVersion, p.changes = p.version, nil
	o := r.host.opts.Cluster
	if o == nil {
		return
	}
	for _, c := range changes {
		o.Observer.RecordsPut(c.version, c.put)
	}
	o.Observer.RecordsChanged(p.version)
}

// records applies a compare-and-set of records. The result is the new version or a *Conflict.
func (a *machine) records(r *Replica, next *progress) (result any, err error) {
	if !r.isMeta() {
		return r.wrongRange(), nil
	}
	c := &a.entry.Records
	if c.Expect != 0 && c.Expect != next.version {
		return &Conflict{Version: next.version}, nil
	}
	change := recordsChange{next.version + 1, make([]command.Record, len(c.Put))}
	for i := range c.Put {
		// the entry's memory is reused
		change.put[i] = command.Record{Key: bytes.Clone(c.Put[i].Key), Value: bytes.Clone(c.Put[i].Value)}
		if c.Put[i].Value == nil {
			a.batch.Delete(keys.MetaID, c.Put[i].Key)
		} else {
			a.batch.Set(keys.MetaID, c.Put[i].Key, c.Put[i].Value)
		}
	}
	next.version++
	r.ahead.changes = append(r.ahead.changes, change)
	binary.BigEndian.PutUint64(a.key[:], next.version)
	a.batch.Set(keys.MetaID, []byte(keys.MetadataVersionKey), a.key[:])
	return next.version, nil
}

// recordsVersion returns the stored version, or 0 if no version is stored.
func recordsVersion(s Store) (uint64, error) {
	value, err := s.Get(keys.MetaID, []byte(keys.MetadataVersionKey))
	if err != nil || value == nil {
		return 0, err
	}
	return decodeVersion(value)
}

func decodeVersion(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("metadata version: %d bytes", len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// Records calls fn for each record of the meta partition in key order, and returns the version of the records. It reads
// one state that the local replica has applied. The arguments of fn are valid only during the call.
func (h *Host) Records(fn func(key, value []byte) error) (version uint64, err error) {
	err = h.store.Scan(keys.MetaID, nil, func(key, value []byte) error {
		if string(key) == keys.MetadataVersionKey {
			var err error
			version, err = decodeVersion(value)
			return err
		}
		return fn(key, value)
	})
	return version, err
}

// Change changes records of the meta partition if their version is the expected version. It returns the new version, or
// *Conflict with the current version. Only the leader of the meta partition can change records. The first byte of a key
// must not be 0.
func (r *Replica) Change(ctx context.Context, c command.Records) (version uint64, err error) {
	if !r.isMeta() {
		return 0, r.wrongRange()
	}
	for i := range c.Put {
		if k := c.Put[i].Key; len(k) == 0 || k[0] == 0 {
			return 0, fmt.Errorf("record with the key %x: %w", k, command.ErrMalformed)
		}
	}
	o, err := r.Control().proposeAndWait(ctx, &command.Entry{Kind: command.EntryRecords, Records: c})
	if err != nil {
		return 0, err
	}
	version, _ = o.Result.(uint64)
	return version, nil
}

// NewestRecords waits until this replica has applied all changes that had succeeded before the call, and returns the
// version of the meta partition's records. Followers also support NewestRecords.
func (r *Replica) NewestRecords(ctx context.Context) (version uint64, err error) {
	if !r.isMeta() {
		return 0, r.wrongRange()
	}
	if err := r.requests.begin(); err != nil {
		return 0, err
	}
	defer r.requests.end()
	t, err := r.seq.admit(ctx, dberr.Quorum, true)
	if err != nil {
		return 0, err
	}
	if version, err = recordsVersion(r.host.store); err != nil {
		return 0, err
	}
	return version, r.seq.confirmRead(ctx, t, nil)
}
