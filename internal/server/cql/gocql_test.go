// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// driverSession answers the requests that a driver sends while it connects. It echoes all other requests. A statement
// has as many columns as markers.
type driverSession struct{ *fake }

// prepared maps statement IDs to the number of markers for all sessions of a test. Drivers prepare a statement on one
// connection and execute it on another.
var prepared sync.Map

func (d *driverSession) Query(ctx context.Context, call *session.Call) session.Status {
	text := string(call.Request.Text)
	switch {
	case strings.Contains(text, "system.local"):
		return systemLocal(call)
	case strings.Contains(text, "system.peers"):
		call.Result.Kind, call.Result.Metadata = session.Rows, blobs[1]
		return session.Done
	}
	return d.fake.Query(ctx, call)
}

func systemLocal(call *session.Call) session.Status {
	only := ""
	if bytes.HasPrefix(call.Request.Text, []byte("SELECT schema_version ")) {
		only = "schema_version"
	}
	text, inet := &cqltype.Type{Kind: cqltype.Text}, &cqltype.Type{Kind: cqltype.Inet}
	id := &cqltype.Type{Kind: cqltype.UUID}
	tokens := &cqltype.Type{Kind: cqltype.Set, Elems: []*cqltype.Type{text}}
	var columns []session.Column
	for _, c := range []struct {
		name  string
		t     *cqltype.Type
		value string
	}{
		{"key", text, "local"},
		{"cluster_name", text, "test"},
		{"data_center", text, "dc1"},
		{"rack", text, "r1"},
		{"host_id", id, "0123456789abcdef"},
		{"schema_version", id, "0123456789abcdef"},
		{"release_version", text, "4.0.0"},
		{"rpc_address", inet, "\x7f\x00\x00\x01"},
		{"broadcast_address", inet, "\x7f\x00\x00\x01"},
		{"partitioner", text, "org.apache.cassandra.dht.Murmur3Partitioner"},
		{"tokens", tokens, "\x00\x00\x00\x01\x00\x00\x00\x010"},
	} {
		if only != "" && c.name != only {
			continue
		}
		columns = append(columns, session.Column{Keyspace: "system", Table: "local", Name: c.name, Type: c.t})
		call.Result.Cells = cqlwire.AppendBytes(call.Result.Cells, []byte(c.value))
	}
	call.Result.Kind, call.Result.Metadata, call.Result.RowCount = session.Rows, session.NewMetadata(columns), 1
	return session.Done
}

func (d *driverSession) Prepare(_ context.Context, call *session.Call) session.Status {
	n := bytes.Count(call.Request.Text, []byte("?"))
	p := &session.Prepared{ID: md5.Sum(call.Request.Text), Bind: blobs[n].Columns, Result: blobs[n]}
	prepared.Store(p.ID, n)
	call.Result.Kind, call.Result.Prepared = session.PreparedStatement, p
	return session.Done
}

func (d *driverSession) Execute(_ context.Context, call *session.Call) session.Status {
	if n, ok := prepared.Load(call.Request.ID); !ok || n != len(call.Request.Values) {
		return call.Result.Fail(errors.New("not prepared like that"))
	}
	return echo(call, call.Request.Values)
}

func (d *driverSession) Batch(_ context.Context, call *session.Call) session.Status {
	if len(call.Request.Statements) != 2 || len(call.Request.Statements[1].Values) != 2 || !call.Request.HasTimestamp {
		return call.Result.Fail(errors.New("a batch was expected to have two statements"))
	}
	return session.Done
}

// TestGocql checks that a real driver with its own codec can use the server. It uses each protocol version, with and
// without compression, and with a login.
func TestGocql(t *testing.T) {
	var srv *Server
	srv = New(func(client session.Client) Session {
		return &driverSession{&fake{srv: srv, client: client}}
	}, Options{Authenticator: users{"cassandra": "secret"}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	for _, tc := range []struct {
		version    int
		compressor gocql.Compressor
	}{
		{0, nil}, {3, nil}, {4, nil}, {5, nil}, {4, snappy.SnappyCompressor{}}, {4, lz4.LZ4Compressor{}},
		{5, lz4.LZ4Compressor{}},
	} {
		t.Run(fmt.Sprintf("v%d %T", tc.version, tc.compressor), func(t *testing.T) {
			cluster := gocql.NewCluster(l.Addr().String())
			cluster.ProtoVersion, cluster.Compressor = tc.version, tc.compressor
			cluster.Authenticator = gocql.PasswordAuthenticator{Username: "cassandra", Password: "secret"}
			cluster.Timeout, cluster.ConnectTimeout = 10*time.Second, 10*time.Second
			cluster.Logger = gocql.NewLogger(gocql.LogLevelNone)
			s, err := cluster.CreateSession()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, n := range []int{0, 10, 3000, 131_000, 500_000} {
				a, b := bytes.Repeat([]byte("xyz"), n), bytes.Repeat([]byte{1, 2, 3, 4}, n)
				var gotA, gotB []byte
				if err := s.Query("SELECT a, b FROM t WHERE a = ? AND b = ?", a, b).WithTimestamp(5).Scan(&gotA,
					&gotB); err != nil {
					t.Fatal(n, err)
				}
				if !bytes.Equal(a, gotA) || !bytes.Equal(b, gotB) {
					t.Fatalf("%d bytes were decoded as %d and %d", n, len(gotA), len(gotB))
				}
			}
			batch := s.Batch(gocql.UnloggedBatch).Query("INSERT INTO t (a) VALUES (1)").
				Query("INSERT INTO t (a, b) VALUES (?, ?)", []byte{1}, []byte{2})
			if err := batch.Exec(); err != nil {
				t.Error(err)
			}
			var exists *gocql.RequestErrAlreadyExists
			if err := s.Query("fail tab").Exec(); !errors.As(err, &exists) || exists.Table != "tab" {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}
