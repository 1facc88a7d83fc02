// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// certificates runs ilion cert and writes a configuration file for each certificate directory.
type certificates struct {
	t    *testing.T
	base string
}

func (c certificates) run(args ...string) {
	c.t.Helper()
	if out, err := exec.Command(process.Binary(c.t),
		append([]string{"cert"}, args...)...).CombinedOutput(); err != nil {
		c.t.Fatalf("ilion cert %v: %v\n%s", args, err, out)
	}
}

func (c certificates) path(name string) string { return filepath.Join(c.base, name) }

// config returns the configuration file for a trusted authority and the node's certificate directory.
func (c certificates) config(trusted, own string) string {
	c.t.Helper()
	file := c.path(own + "-" + trusted + ".yaml")
	text := fmt.Sprintf("cluster:\n  tls: {ca: %s/ca.crt, cert: %s/node.crt, key: %s/node.key}\n", c.path(trusted),
		c.path(own), c.path(own))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return file
}

// expired writes a certificate that expired an hour ago, signed by the given authority.
func (c certificates) expired(authority, name string) {
	c.t.Helper()
	crt, err1 := os.ReadFile(c.path(authority) + "/ca.crt")
	key, err2 := os.ReadFile(c.path(authority) + "/ca.key")
	a, err3 := transport.LoadAuthority(crt, key)
	if err1 != nil || err2 != nil || err3 != nil {
		c.t.Fatal(err1, err2, err3)
	}
	crt, key, err := a.Issue(transport.NodeID{9, 9}, nil, transport.Validity{From: time.Now().Add(-2 * time.Hour),
		For: time.Hour})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.MkdirAll(c.path(name), 0o700); err != nil {
		c.t.Fatal(err)
	}
	for file, b := range map[string][]byte{"node.crt": crt, "node.key": key} {
		if err := os.WriteFile(filepath.Join(c.path(name), file), b, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestMutualTLS checks with real processes that nodes with certificates of one authority form a cluster. No other
// client may get access, and both sides must report the reason for a rejection.
func TestMutualTLS(t *testing.T) {
	c := certificates{t, t.TempDir()}
	c.run("authority", "--out", c.path("ca"))
	c.run("authority", "--out", c.path("strangers"))
	for i := range 4 {
		c.run("node", "--authority", c.path("ca"), "--out", c.path(fmt.Sprint("n", i)))
	}
	c.run("node", "--authority", c.path("ca"), "--out", c.path("spare"))
	c.run("node", "--authority", c.path("strangers"), "--out", c.path("x"))
	c.expired("ca", "old")
	for _, key := range []string{"ca/ca.key", "n0/node.key"} {
		if info, err := os.Stat(c.path(key)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", key, info.Mode(), err)
		}
	}
	var addresses []string
	var nodes []*process.Server
	for i := range 4 {
		addresses = append(addresses, freeAddress(t))
		how := []string{"--internal", addresses[i], "--config", c.config("ca", fmt.Sprint("n", i)), "--bootstrap"}
		if i > 0 {
			how[len(how)-1] = "--join=" + addresses[0]
		}
		nodes = append(nodes, process.Start(t, c.path(fmt.Sprint("data", i)), how...))
	}
	conn := nodes[3].Dial(t)
	defer conn.Close()
	process.Do(t, conn, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE ks.t (k int PRIMARY KEY)")
	eventually.None(t, "write while the cluster grows", eventually.Limit, func() string {
		if _, err := process.Query(conn, dberr.Quorum, "INSERT INTO ks.t (k) VALUES (1)"); err != nil {
			return err.Error()
		}
		return ""
	})

	for _, r := range []struct {
		name   string
		config string
		says   []string
		node   string // expected message of the first node
	}{
		{"an authority of its own", c.config("strangers", "x"), []string{"unknown authority"}, "bad certificate"},
		{"a certificate of another authority", c.config("ca", "x"), []string{"does not accept the certificate"},
			"unknown authority"},
		{"an expired certificate", c.config("ca", "old"), []string{"expired"}, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			begin(t, c.path(r.name), freeAddress(t), "--join", addresses[0], "--config", r.config).Refuses(t, 1,
				r.says...)
			nodes[0].Says(t, r.node)
			if _, err := os.Stat(c.path(r.name)); err == nil {
				t.Error("the process left a directory behind")
			}
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		s := begin(t, c.path("plain"), freeAddress(t), "--join", addresses[0])
		s.Says(t, "Check whether it uses TLS and this node does not")
		nodes[0].Says(t, "does not look like a TLS handshake")
		s.Stop(t)
	})
	t.Run("the certificate of a member", func(t *testing.T) {
		begin(t, c.path("thief"), freeAddress(t), "--join", addresses[0], "--config", c.config("ca", "n1")).Refuses(t,
			1, "another process has this identity")
		nodes[0].Says(t, "another process has this identity")
	})
	t.Run("the certificate of a member whose disk is lost", func(t *testing.T) {
		nodes[1].Kill()
		begin(t, c.path("wiped"), addresses[1], "--join", addresses[0], "--config", c.config("ca", "n1")).Refuses(t, 1,
			"another data directory", "ilion cert node")
	})
	t.Run("data of one node, certificate of another", func(t *testing.T) {
		begin(t, c.path("data1"), addresses[1], "--config", c.config("ca", "spare")).Refuses(t, 1,
			"the certificate in cluster.tls is for node")
	})
	again := process.Start(t, c.path("data1"), "--internal", addresses[1], "--config", c.config("ca", "n1"))
	back := again.Dial(t)
	defer back.Close()
	if r, err := back.Query("SELECT * FROM ks.t"); err != nil || r.RowCount != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}
