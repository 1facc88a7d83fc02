// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/joinsecret"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestNobodyJoinsWithoutSecret checks a node with users and without certificates. Its internal address must reject
// every caller that does not have the node's join secret. The callers are nodes and a process that uses the protocol
// of nodes.
func TestNobodyJoinsWithoutSecret(t *testing.T) {
	dir := func(name string) string { return filepath.Join(t.TempDir(), name) }
	data := dir("first")
	first := startNode(t, Options{
		Data: data, Cluster: options.Cluster{Internal: "127.0.0.1:0", Bootstrap: true},
		Auth: options.Auth{Users: map[string]string{"app": hash(t, "s3cret")}},
	})
	at := first.InternalAddr()
	made := filepath.Join(data, joinsecret.FileName)
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	cluster := transport.ClusterID(first.store.Identity().Cluster)
	stranger, err := transport.New(transport.Self{Cluster: cluster, Node: topology.NodeID{1}}, transport.DialTCP,
		transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Discover(t.Context(), at); !errors.Is(err, transport.ErrSecret) {
		t.Errorf("a process that knows the cluster's id: %v", err)
	}
	if _, _, err := transport.Identify(t.Context(), transport.DialTCP, nil, nil, at); !errors.Is(err,
		transport.ErrSecret) {
		t.Errorf("a process that calls Identify: %v", err)
	}

	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte(strings.Repeat("guess", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("guess"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, file, want string }{
		{"none", "", "copy the file join-secret from the data directory"},
		{"another", other, "--join-secret-file"},
		{"one that can be guessed", short, "openssl rand -hex 32"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		n, err := Start(ctx, Options{
			Data: dir(c.name), CQL: "127.0.0.1:0", HTTP: "off",
			Cluster: options.Cluster{Internal: "127.0.0.1:0", Join: []string{at}, JoinSecretFile: c.file},
		})
		cancel()
		if err == nil {
			_ = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if got := len(first.metadata.State().Nodes); got != 1 {
		t.Errorf("%d nodes, want 1", got)
	}
}

// TestJoinSecretIsKept checks that a node joins with a copy of the secret. The node must store the secret in a file
// that only its owner can read. The node must restart without the copy. A second start of the first node must not
// change the secret.
func TestJoinSecretIsKept(t *testing.T) {
	base := t.TempDir()
	first := startNode(t, Options{Data: filepath.Join(base, "first"),
		Cluster: options.Cluster{Internal: "127.0.0.1:0", Bootstrap: true}})
	o := Options{Data: filepath.Join(base, "second"), CQL: "127.0.0.1:0", HTTP: "off", Cluster: options.Cluster{
		Internal: "127.0.0.1:0", Join: []string{first.InternalAddr()},
		JoinSecretFile: filepath.Join(base, "first", joinsecret.FileName),
	}}
	second, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster.Internal = second.InternalAddr()
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(o.Data, joinsecret.FileName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	o.Cluster.Join, o.Cluster.JoinSecretFile = nil, ""
	again := startNode(t, o)
	eventually.True(t, "both know each other", func() bool { return len(again.metadata.State().Nodes) == 2 })

	before := first.joinSecret.Value()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	first = startNode(t, Options{Data: filepath.Join(base, "first"), Cluster: options.Cluster{Internal: "127.0.0.1:0",
		Bootstrap: true, JoinSecretFile: filepath.Join(base, "elsewhere")}})
	if !bytes.Equal(first.joinSecret.Value(), before) {
		t.Error("a second bootstrap changed the secret")
	}
}

// TestDamagedSecretIsNotReplaced checks that a node with a damaged secret file does not start. The error must name the
// file. The node must neither use another secret nor generate a new secret. With a configured secret file, the node
// starts and repairs the damaged file.
func TestDamagedSecretIsNotReplaced(t *testing.T) {
	base := t.TempDir()
	data := filepath.Join(base, "first")
	o := Options{Data: data, CQL: "127.0.0.1:0", HTTP: "off",
		Cluster: options.Cluster{Internal: "127.0.0.1:0", Bootstrap: true}}
	first, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(data, joinsecret.FileName)
	whole, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[10] ^= 4
	if err := os.WriteFile(kept, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, configured := range []string{"", filepath.Join(base, "missing")} {
		o.Cluster.JoinSecretFile = configured
		n, err := Start(t.Context(), o)
		if err == nil {
			_ = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), kept+" is damaged") {
			t.Errorf("configured %q: %v", configured, err)
		}
		if now, err := os.ReadFile(kept); err != nil || !bytes.Equal(now, damaged) {
			t.Errorf("configured %q: the damaged file was replaced: %q, %v", configured, now, err)
		}
	}
	byHand := filepath.Join(base, "by-hand")
	if err := os.WriteFile(byHand, append(bytes.Clone(first.joinSecret.Value()), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Cluster.JoinSecretFile = byHand
	startNode(t, o)
	if now, err := os.ReadFile(kept); err != nil || !bytes.Equal(now, whole) {
		t.Errorf("kept: %q, %v", now, err)
	}
}
