// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

type endedStore struct {
	SnapshotStore
	err error
}

func (s endedStore) Install(uint64, *pb.SnapshotMetadata, SnapshotData) error { return s.err }

type noData struct{ SnapshotData }

func (noData) Close() error { return nil }

// TestInstallEndsWithHost checks that an installation that is abandoned because its host closes does not make the host
// fail. Any other error must make the host fail.
func TestInstallEndsWithHost(t *testing.T) {
	broken := errors.New("broken")
	for _, err := range []error{fmt.Errorf("install: %w", context.Canceled), broken} {
		r := NewRunner(&Host{opts: Options{Observer: NoObserver{}}}, nil, nil, endedStore{err: err}, nil, nil)
		r.install(Install{g: &Group{id: 1}, message: &pb.Message{}, data: noData{}})
		if got := r.Failed(); (got != nil) != errors.Is(err, broken) {
			t.Errorf("after %v the runner reports %v", err, got)
		}
		select {
		case <-r.stop:
		default:
			t.Errorf("after %v the runner continues", err)
		}
	}
}
