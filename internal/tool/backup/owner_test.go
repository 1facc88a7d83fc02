// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// put stores the manifest of an empty backup of a cluster.
func put(t *testing.T, target Target, id, cluster string) {
	t.Helper()
	at, _ := time.Parse(IDFormat, id)
	records := archive.Builder{}
	m := &archive.Manifest{ID: id, Time: at, Cluster: cluster, Metadata: records.File()}
	data, err := m.Encode()
	if err == nil {
		err = target.Put(t.Context(), fileName(m.Metadata.Name), records.Data())
	}
	if err == nil {
		err = target.Put(t.Context(), manifestName(id), data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const older, newer, newest = "20260101T000000.000Z", "20260102T000000.000Z", "20260103T000000.000Z"

// TestRepositoryHasOneCluster checks that a repository belongs to the cluster of its first backup. The repository may
// be encrypted. Another cluster must be rejected before it stores any data. A damaged cluster ID must be an error.
func TestRepositoryHasOneCluster(t *testing.T) {
	for name, place := range map[string]*Place{"plain": {Name: t.TempDir()},
		"encrypted": {Name: t.TempDir() + "/new", Key: key(t, 1)}} {
		target := open(t, place)
		ctx := t.Context()
		if owner, err := Owner(ctx, target); owner != "" || err != nil {
			t.Errorf("%s: an empty repository belongs to %q, %v", name, owner, err)
		}
		for range 2 {
			if err := claim(ctx, target, "aa"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		err := claim(ctx, target, "bb")
		if err == nil || !strings.Contains(err.Error(), "belongs to cluster aa, but this node belongs to cluster bb") {
			t.Errorf("%s: another cluster: %v", name, err)
		}
		maker := &Maker{Node: otherCluster{}, Target: target, Clock: sched.SystemClock}
		if _, _, err := maker.Make(ctx); err == nil || !strings.Contains(err.Error(), "repository belongs to cluster") {
			t.Errorf("%s: a backup of another cluster: %v", name, err)
		}
		f := &Follower{Node: otherCluster{}, Target: target, Clock: sched.SystemClock, Every: time.Second,
			Display: new(archiveMessages)}
		if err := f.Run(ctx); err == nil || !strings.Contains(err.Error(), "repository belongs to cluster") {
			t.Errorf("%s: an archive of another cluster: %v", name, err)
		}
		for _, dir := range []string{"backups/", "pending/", "files/"} {
			names, err := target.List(ctx, dir)
			if names = slices.DeleteFunc(names, func(n string) bool { return n == clusterName }); err != nil ||
				len(names) > 0 {
				t.Errorf("%s: the rejected cluster left %q, %v", name, names, err)
			}
		}
		for _, bad := range []string{"", "aa", clusterWord + "00\naa", string(encodeOwner("\x1b[2J"))} {
			if err := target.Put(ctx, clusterName, []byte(bad)); err != nil {
				t.Fatal(err)
			}
			if _, err := Owner(ctx, target); !errors.Is(err, archive.ErrDamaged) {
				t.Errorf("%s: %q: %v", name, bad, err)
			}
		}
	}
}

// otherCluster simulates a node of cluster bb.
type otherCluster struct{}

// Order implements NodeClient.
func (otherCluster) Order(_ context.Context, what string, _ []byte) ([]byte, error) {
	return json.Marshal(archive.Snapshot{ID: "m", Cluster: "bb", Metadata: clusterRecords, Nodes: []string{"n"},
		Time: time.Unix(1, 0)})
}

// TestMixedRepository checks a repository in which two clusters stored backups. Their build did not record the cluster
// of a repository. A backup must be selected by its ID, and neither cluster can add a backup. Each cluster must keep
// its newest backup.
func TestMixedRepository(t *testing.T) {
	ctx, target := t.Context(), open(t, &Place{Name: t.TempDir()})
	put(t, target, older, "aa")
	if m, err := Newest(ctx, target, ""); err != nil || m.ID != older {
		t.Errorf("the newest of one cluster: %v, %v", m, err)
	}
	put(t, target, newer, "bb")
	put(t, target, newest, "bb")
	if _, err := Newest(ctx, target, ""); err == nil || !strings.Contains(err.Error(), "2 clusters (aa, bb)") {
		t.Errorf("the newest of two clusters: %v", err)
	}
	if m, err := Newest(ctx, target, older); err != nil || m.Cluster != "aa" {
		t.Errorf("by its ID: %v, %v", m, err)
	}
	if err := claim(ctx, target, "aa"); err == nil {
		t.Error("a cluster can add to the repository of two clusters")
	}
	p := &Pruner{Target: target, Clock: sched.SystemClock, KeepLast: 1}
	if err := p.Prune(ctx); err != nil {
		t.Fatal(err)
	}
	if ids, err := List(ctx, target); !slices.Equal(ids, []string{older, newest}) || err != nil {
		t.Errorf("left: %q, %v", ids, err)
	}
}

// TestHostileRepository checks that malformed contents of a repository are rejected with a printable error.
func TestHostileRepository(t *testing.T) {
	const hostile = "\x1b]0;x\a\n../../etc/passwd"
	good := func() *archive.Manifest {
		return &archive.Manifest{ID: older, Cluster: "aa", Metadata: archive.File{Name: archive.FileName(nil)},
			Tables: []archive.Table{{Keyspace: "ks", Name: "t", ID: 1024, Partitions: []archive.Partition{
				{Files: []archive.File{{Name: archive.FileName(nil)}}}}}}}
	}
	for name, change := range map[string]func(m *archive.Manifest){
		"id":           func(m *archive.Manifest) { m.ID = hostile },
		"another id":   func(m *archive.Manifest) { m.ID = newer },
		"cluster":      func(m *archive.Manifest) { m.Cluster = hostile },
		"software":     func(m *archive.Manifest) { m.Software = hostile },
		"records":      func(m *archive.Manifest) { m.Metadata.Name = "x" },
		"no records":   func(m *archive.Manifest) { m.Metadata.Name = "" },
		"keyspace":     func(m *archive.Manifest) { m.Tables[0].Keyspace = hostile },
		"table":        func(m *archive.Manifest) { m.Tables[0].Name = hostile },
		"empty file":   func(m *archive.Manifest) { m.Tables[0].Partitions[0].Files[0].Name = "" },
		"short file":   func(m *archive.Manifest) { m.Tables[0].Partitions[0].Files[0].Name = "a" },
		"file":         func(m *archive.Manifest) { m.Tables[0].Partitions[0].Files[0].Name = hostile },
		"size":         func(m *archive.Manifest) { m.Tables[0].Partitions[0].Files[0].Bytes = -1 },
		"missing file": func(m *archive.Manifest) {},
	} {
		ctx, target := t.Context(), open(t, &Place{Name: t.TempDir()})
		m := good()
		change(m)
		data, err := m.Encode()
		if err == nil {
			err = target.Put(ctx, manifestName(older), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m, err = Newest(ctx, target, ""); err == nil {
			err = (&Checker{Target: target}).Check(ctx, m)
		}
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\a\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, target := t.Context(), open(t, &Place{Name: t.TempDir()})
	if err := target.Put(ctx, manifestName("\x1b[2J"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := List(ctx, target); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a hostile directory: %v", err)
	}
	for _, id := range []string{hostile, "..", "../x"} {
		if _, err := Load(ctx, target, id); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("a hostile ID: %v", err)
		}
	}
}
