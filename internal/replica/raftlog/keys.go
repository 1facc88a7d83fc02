// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"encoding/binary"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// These are the kinds of a group's records.
const (
	kindHardState = 0
	kindTruncated = 1
	kindConfState = 2
	kindEntry     = 3
	kindInstall   = 4
)

// entryHead is the length of an entry's term and type, which precede its data.
const entryHead = 8 + 1

const entryKeyLen = 8 + 1 + 8

var (
	formatKey = recordKey(0, 0)
	labelKey  = recordKey(0, 1)
)

// The format is stored as a name and a number.
const (
	formatName   = "ilion raft log "
	formatNumber = 1
)

func groupKey(group uint64) []byte { return binary.BigEndian.AppendUint64(nil, group) }

func recordKey(group uint64, kind byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, entryKeyLen), group), kind)
}

func entryKey(group, index uint64) []byte {
	return binary.BigEndian.AppendUint64(recordKey(group, kindEntry), index)
}

func putEntryKey(dst []byte, group, index uint64) {
	binary.BigEndian.PutUint64(dst, group)
	dst[8] = kindEntry
	binary.BigEndian.PutUint64(dst[9:], index)
}

func groupOf(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

// entryIndex returns the index in the key of an entry.
func entryIndex(key []byte) uint64 { return binary.BigEndian.Uint64(key[9:]) }

// entryBlock contains an entry and the scalars to which the entry's pointers refer, in one allocation.
type entryBlock struct {
	entry       pb.Entry
	term, index uint64
	kind        pb.EntryType
}

// decodeEntry decodes an entry without copying. The entry refers to value.
func decodeEntry(index uint64, value []byte) (*pb.Entry, error) {
	if len(value) < entryHead {
		return nil, fmt.Errorf("entry %d of %d bytes: %w", index, len(value), ErrCorrupt)
	}
	b := &entryBlock{term: binary.BigEndian.Uint64(value), index: index, kind: pb.EntryType(value[8])}
	b.entry.Term, b.entry.Index, b.entry.Type = &b.term, &b.index, &b.kind
	if len(value) > entryHead {
		b.entry.Data = value[entryHead:]
	}
	return &b.entry, nil
}

// entryBytes returns the approximate memory used by an entry.
func entryBytes(e *pb.Entry) int64 { return int64(len(e.Data)) + 128 }

func appendUints(dst []byte, vs ...uint64) []byte {
	for _, v := range vs {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return dst
}

// readUints fills dst from b, which must have exactly the required length.
func readUints(b []byte, dst ...*uint64) error {
	if len(b) != 8*len(dst) {
		return fmt.Errorf("record of %d bytes: %w", len(b), ErrCorrupt)
	}
	for i, p := range dst {
		*p = binary.BigEndian.Uint64(b[8*i:])
	}
	return nil
}

// appendConfState appends voters, learners, outgoing voters, and next learners, each list with its length, and then the
// auto-leave flag.
func appendConfState(dst []byte, cs *pb.ConfState) []byte {
	w := codec.Writer(dst)
	for _, list := range [][]uint64{cs.GetVoters(), cs.GetLearners(), cs.GetVotersOutgoing(), cs.GetLearnersNext()} {
		w.Uint(uint64(len(list)))
		for _, id := range list {
			w.Uint(id)
		}
	}
	w.Flag(cs.GetAutoLeave())
	return w
}

func decodeConfState(b []byte) (*pb.ConfState, error) {
	cs := pb.EnsureConfState(&pb.ConfState{})
	r := codec.NewReader(b, ErrCorrupt)
	for _, list := range []*[]uint64{&cs.Voters, &cs.Learners, &cs.VotersOutgoing, &cs.LearnersNext} {
		for range r.Count(1) {
			*list = append(*list, r.Uint())
		}
	}
	if r.Flag() {
		cs.AutoLeave = new(true)
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("conf state: %w", err)
	}
	return cs, nil
}
