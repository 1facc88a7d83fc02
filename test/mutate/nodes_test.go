// SPDX-License-Identifier: Apache-2.0

package mutate

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// nodeTargets returns the decoders of the nodes' messages and of the cluster data on disk.
func nodeTargets() []target {
	return []target{
		{"log entries", entries(), decodeEntries},
		{"raft frames", raftFrames(), decodeFrames},
		{"snapshot heads", raftHeads(), func() func([]byte) string {
			return func(b []byte) string {
				r := bytes.NewReader(b)
				if _, err := raftgroup.ReadHead(raftgroup.NodeID{1}, r); err == nil &&
					len(b)-r.Len() != 4+int(binary.LittleEndian.Uint32(b)) {
					return "a header's size differs from its length field"
				}
				_, rest, err := raftgroup.DecodeMembers(b)
				if err == nil && len(rest) > len(b) {
					return "members grow"
				}
				return ""
			}
		}},
		{"errors between nodes", remoteErrors(), func() func([]byte) string {
			return func(b []byte) string {
				err := remote.DecodeError(b)
				if err == nil {
					return "no error"
				}
				if !errors.Is(err, remote.ErrMalformed) && len(err.Error()) > 64*len(b)+1024 {
					return "an error's text is longer than the error"
				}
				return ""
			}
		}},
		{"requests between nodes", peerRequests(), servePeers},
		{"records of nodes", nodeRecords(), decodeNodes},
		{"records of the map", mapRecords(), decodeMap},
		{"records of a cluster", [][]byte{clusterRecords()}, loadRecords},
		{"records of replicas", replicaRecords(), decodeReplicas},
	}
}

func entries() (out [][]byte) {
	m := command.Mutation{Table: 1024, Token: 5, Key: []byte("key"), Dedupe: command.DedupeID{Coordinator: [16]byte{1},
		Sequence: 9},
		Ops: []command.Op{{Clustering: []byte{1}, Operand: rows()[0]},
			{Kind: command.OpIndex, Index: 9, Value: []byte("v")}}}
	for _, e := range []command.Entry{
		{Kind: command.EntryWrite, Mutations: []command.Mutation{m, m}, Result: []byte("result")},
		{Kind: command.EntrySweep, Sweep: command.Sweep{Table: 1024, Keys: [][]byte{[]byte("swept"), []byte("kept")},
			Horizon: 1_700_000_000, Expired: row.Expired{Own: 5, Default: 6},
			Dropped: []cqltype.Dropped{{Column: 3, Upto: 77}, {Column: 9, Upto: cqltype.AllDropped}}}},
		{Kind: command.EntryTruncate, Indexes: []uint32{7, 8}},
		{Kind: command.EntryRequire, SchemaVersion: 12},
		{Kind: command.EntryRecords,
			Records: command.Records{Expect: 3, Put: []command.Record{{Key: []byte("node/x"), Value: []byte("y")},
				{Key: []byte("gone")}}}},
	} {
		out = append(out, command.AppendEntry(nil, &e))
	}
	return out
}

func decodeEntries() func([]byte) string {
	var e, again command.Entry
	var c command.Records
	var b1, b2 []byte
	return func(b []byte) string {
		_ = command.DecodeRecords(&c, b)
		if command.DecodeEntry(&e, b) != nil {
			return ""
		}
		b1 = command.AppendEntry(b1[:0], &e)
		if err := command.DecodeEntry(&again, b1); err != nil {
			return "a decoded entry does not encode: " + err.Error()
		}
		if b2 = command.AppendEntry(b2[:0], &again); !bytes.Equal(b1, b2) {
			return "an entry changes in a round trip"
		}
		return ""
	}
}

func raftFrames() [][]byte {
	app := &pb.Message{Type: pb.MsgApp.Enum(), To: ptr(2), From: ptr(1), Term: ptr(7), LogTerm: ptr(6), Index: ptr(40),
		Commit:  ptr(39),
		Context: []byte("ctx"), Entries: []*pb.Entry{{Term: ptr(7), Index: ptr(41), Data: []byte("data")},
			{Term: ptr(7), Index: ptr(42)}}}
	snap := &pb.Message{Type: pb.MsgSnap.Enum(), To: ptr(2), From: ptr(1), Term: ptr(7), Snapshot: &pb.Snapshot{
		Metadata: &pb.SnapshotMetadata{
			Index:     ptr(40),
			Term:      ptr(6),
			ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{9}},
		}}}
	beat := &pb.Message{Type: pb.MsgHeartbeat.Enum(), To: ptr(2), From: ptr(1), Term: ptr(7), Commit: ptr(39)}
	return [][]byte{
		raftgroup.NewFrame(nil, 5, 6),
		raftgroup.AppendMessage(raftgroup.AppendMessage(raftgroup.NewFrame(nil, 5, 6), 3, app), 4, beat),
		raftgroup.AppendMessage(raftgroup.NewFrame(nil, 5, 6), 3, snap),
	}
}

func ptr(v uint64) *uint64 { return &v }

func raftHeads() (out [][]byte) {
	for _, frame := range raftFrames() {
		out = append(out, append(binary.LittleEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	}
	return append(out, raftgroup.EncodeMembers(nil, []raftgroup.Member{{Replica: 1, Node: raftgroup.NodeID{1}},
		{Replica: 9}}))
}

func decodeFrames() func([]byte) string {
	return func(b []byte) string {
		f, err := raftgroup.DecodeFrame(raftgroup.NodeID{1}, b)
		if err != nil {
			return ""
		}
		again := raftgroup.NewFrame(nil, 5, 6)
		for _, m := range f.Messages {
			again = raftgroup.AppendMessage(again, m.Group, m.Raft)
		}
		back, err := raftgroup.DecodeFrame(raftgroup.NodeID{1}, again)
		if err != nil || len(back.Messages) != len(f.Messages) {
			return fmt.Sprintf("%d messages become %d (%v)", len(f.Messages), len(back.Messages), err)
		}
		return ""
	}
}

func remoteErrors() (out [][]byte) {
	for _, err := range []error{
		errors.New("text"), &partition.NotLeader{Partition: 5, Leader: topology.NodeID{3}},
		&partition.WrongRange{Partition: 5, Epoch: 7}, partition.ErrUncertain,
		&partition.Conflict{Version: 9}, &dberr.Unavailable{Level: dberr.Quorum, Required: 3, Alive: 2},
		&dberr.AlreadyExists{Keyspace: "ks", Table: "t", Message: "m"},
		&dberr.WriteTimeout{Level: dberr.Quorum, Received: 1, BlockFor: 2, WriteType: "SIMPLE"},
		&dberr.FunctionFailure{Keyspace: "ks", Function: "f", ArgTypes: []string{"int", "text"}},
	} {
		out = append(out, remote.AppendError(nil, err))
	}
	return out
}

func peerRequests() (out [][]byte) {
	n, _ := json.Marshal(
		peers.JoinRequest{Node: topology.NodeID{1}, Internal: "10.0.0.1:7000", CQL: "10.0.0.1:9042", Region: "r",
			Zone: "z", Newest: 1},
	) // plain values start here
	return append(out, []byte{peers.ReportCall.Number}, append([]byte{peers.AwaitCall.Number}, `{"version":7}`...),
		append([]byte{peers.JoinCall.Number}, n...), []byte{peers.AcquireCall.Number}, []byte{peers.StopCall.Number},
		append([]byte{73}, "subject\x00question"...))
}

// answer registers a handler that returns a.
func answer[Q, A any](s *rpc.Server, c *rpc.Call[Q, A], a A) {
	rpc.Handle(s, c, func(context.Context, topology.NodeID, Q) (A, error) { return a, nil })
}

// reply counts responses.
type reply struct{ n, bytes int }

func (r *reply) Page([]byte) error  { return transport.ErrOneAnswer }
func (r *reply) End(b []byte) error { r.n++; r.bytes += len(b); return nil }
func (r *reply) Fail(err error)     { r.n++; r.bytes += len(err.Error()) }

func servePeers() func([]byte) string {
	s := new(rpc.Server)
	answer(s, peers.ReportCall, peers.Report{Started: time.Unix(5, 0)})
	answer(s, peers.AwaitCall, peers.Versions{})
	answer(s, peers.JoinCall, peers.JoinResponse{Replica: 1})
	answer(s, peers.AcquireCall, peers.AcquireResponse{Version: 1})
	answer(s, peers.StopCall, rpc.None{})
	answer(s, peers.AcknowledgedCall, rpc.None{})
	answer(s, peers.StatsCall, peers.NodeStats{Capacity: 1 << 40})
	return func(b []byte) string {
		var r reply
		s.Serve(context.Background(), topology.NodeID{1}, b, &r)
		if r.n != 1 || r.bytes > 4096+8*len(b) {
			return fmt.Sprintf("%d responses with %d bytes", r.n, r.bytes)
		}
		return ""
	}
}

func nodeRecord() *meta.Node {
	return &meta.Node{
		Internal:   "10.0.0.1:7000",
		CQL:        "10.0.0.1:9042",
		HTTP:       "10.0.0.1:8080",
		Region:     "europe",
		Zone:       "a",
		Tokens:     []token.Token{-5, 9},
		Levels:     feature.Range{Oldest: 1, Newest: 2},
		Joined:     time.UnixMilli(1_700_000_000_000),
		CreationID: 1 << 60,
	}
}

func nodeRecords() [][]byte {
	old := nodeRecord()
	old.CreationID = 0
	return [][]byte{nodeRecord().Append(nil), old.Append(nil),
		append(nodeRecord().Append(nil), "of a later version"...)}
}

func decodeNodes() func([]byte) string {
	return func(b []byte) string {
		n, err := meta.DecodeNode(topology.NodeID{1}, b)
		if err != nil {
			return ""
		}
		again, err := meta.DecodeNode(topology.NodeID{1}, n.Append(nil))
		if err != nil || !bytes.Equal(n.Append(nil), again.Append(nil)) {
			return fmt.Sprintf("a node changes in a round trip (%v)", err)
		}
		return ""
	}
}

// aMap returns a partition map with two tables and the meta partition.
func aMap() *topology.Snapshot {
	place := []topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}, {4}}}}
	m := topology.New()
	for _, f := range []func() (*topology.Snapshot, error){
		func() (*topology.Snapshot, error) { return m.AddMeta(place) },
		func() (*topology.Snapshot, error) { return m.AddTable(1024, 3, place) },
		func() (*topology.Snapshot, error) { return m.AddTable(1030, 1, place) },
	} {
		next, err := f()
		if err != nil {
			panic(err)
		}
		m = next
	}
	return m
}

func mapRecords() [][]byte {
	m := aMap()
	return [][]byte{m.Append(nil), m.AppendHeader(nil), topology.AppendPartition(nil, m.Partition(1)),
		topology.AppendPartition(nil, m.Meta())}
}

func decodeMap() func([]byte) string {
	m := aMap()
	header := m.AppendHeader(nil)
	return func(b []byte) string {
		// Only this part of the metadata is mutated. The rest is a valid partition map.
		_, _ = topology.Assemble(m, b, nil)
		for _, id := range []topology.PartitionID{1, 99, topology.MetaPartition} {
			_, _ = topology.Assemble(m, header, map[topology.PartitionID][]byte{id: b})
		}
		s, err := topology.Decode(b)
		if err != nil {
			return ""
		}
		if err := s.Validate(); err != nil {
			return "an invalid map was decoded: " + err.Error()
		}
		if again, err := topology.Decode(s.Append(nil)); err != nil || !bytes.Equal(again.Append(nil), s.Append(nil)) {
			return fmt.Sprintf("a map changes in a round trip (%v)", err)
		}
		return ""
	}
}

// clusterRecords returns all metadata records of a cluster in one byte slice. Each key and value follows its length.
func clusterRecords() (out []byte) {
	s := meta.Empty()
	for i := range 4 {
		n := nodeRecord()
		n.ID = topology.NodeID{byte(i + 1)}
		s = s.WithNode(n)
	}
	s = s.WithTopology(aMap())
	records, err := meta.Empty().Diff(s)
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		out = append(binary.AppendUvarint(out, uint64(len(r.Key))), r.Key...)
		out = append(binary.AppendUvarint(out, uint64(len(r.Value))), r.Value...)
	}
	return out
}

func loadRecords() func([]byte) string {
	return func(b []byte) string {
		s, err := meta.Load(func(fn func(key, value []byte) error) (uint64, error) {
			take := func() (v []byte) {
				n, k := binary.Uvarint(b)
				if k <= 0 || n > uint64(len(b)-k) {
					b = nil
					return nil
				}
				v, b = b[k:k+int(n)], b[k+int(n):]
				return v
			}
			for len(b) > 0 {
				key := take()
				if err := fn(key, take()); err != nil {
					return 0, err
				}
			}
			return 7, nil
		})
		if err != nil {
			return ""
		}
		if err := s.Topology.Validate(); err != nil {
			return "an invalid map was loaded: " + err.Error()
		}
		if records, err := s.Diff(s); err != nil || len(records) > 0 {
			return fmt.Sprintf("a state differs from itself: %d records (%v)", len(records), err)
		}
		return ""
	}
}

func replicaRecords() [][]byte {
	r := keys.Replica{Partition: 1 << 62, Replica: 77, Created: 1_700_000_000}
	m := keys.NewMeta(5, keys.Span{Table: 1024, Begin: []byte("begin"), End: []byte("end")})
	m.Voters, m.Learners = []keys.Member{{Replica: 1, Node: [16]byte{1}}, {Replica: 2}}, []keys.Member{{Replica: 3}}
	return [][]byte{r.Append(nil), m.Append(nil), []byte(strings.Repeat("\x01", 30))}
}

func decodeReplicas() func([]byte) string {
	return func(b []byte) string {
		if r, err := keys.DecodeReplica(b); err == nil {
			if again, err := keys.DecodeReplica(r.Append(nil)); err != nil || again != r {
				return fmt.Sprintf("%+v becomes %+v (%v)", r, again, err)
			}
		}
		m, err := keys.DecodeMeta(b)
		if err != nil {
			return ""
		}
		if again, err := keys.DecodeMeta(m.Append(nil)); err != nil || !bytes.Equal(again.Append(nil), m.Append(nil)) {
			return fmt.Sprintf("a meta changes in a round trip (%v)", err)
		}
		return ""
	}
}
