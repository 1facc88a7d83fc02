// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/base64"
	"net"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// withKey configures a client with TLS and an account key, as a client of Azure Cosmos DB does.
func withKey(key string, ca *authority) func(*gocql.ClusterConfig) {
	return func(o *gocql.ClusterConfig) {
		withTLS(ca.client(""))(o)
		o.Authenticator = gocql.PasswordAuthenticator{Username: "my-account", Password: key}
	}
}

// TestAccountKeysLogIn checks that an unmodified application for Azure Cosmos DB can connect over TLS with an account
// key. The test checks the permissions of each key, with and without authentication of other clients. A key must not
// be accepted as a password on other addresses, and a password must not be accepted as a key. A role with the same
// name as a key must not change the permissions of the key.
func TestAccountKeysLogIn(t *testing.T) {
	ca := newAuthority(t, "ca")
	ca.sign("server", []net.IP{net.IPv4(127, 0, 0, 1)})
	some := map[string]string{"boss": hash(t, "b"), "primary": hash(t, "p"), "read-only": hash(t, "r")}
	for _, users := range []map[string]string{nil, some} {
		o := Options{CosmosCQL: "127.0.0.1:0", Auth: options.Auth{Users: users},
			TLS:  options.TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")},
			REST: options.REST{PrimaryKey: rest.NewKey(), ReadOnlyKey: rest.NewKey()}}
		n := startNode(t, o)
		keys := n.account.Keys()
		if len(keys.Secondary) == 0 {
			t.Fatal("the missing key was not generated")
		}
		secondary := base64.StdEncoding.EncodeToString(keys.Secondary)
		door := n.CosmosAddr().String()
		connect := func(key string) *gocql.Session {
			cluster := gocql.NewCluster(door)
			cluster.Timeout, cluster.ConnectTimeout = 30*time.Second, 30*time.Second
			withKey(key, ca)(cluster)
			s, err := cluster.CreateSession()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return s
		}
		primary, second, reader := connect(o.REST.PrimaryKey), connect(secondary), connect(o.REST.ReadOnlyKey)
		for _, step := range []struct {
			s         *gocql.Session
			statement string
			want      string // part of the error message
		}{
			{primary, "CREATE KEYSPACE uprofile WITH REPLICATION = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}", ""},
			{primary, "CREATE TABLE uprofile.user (user_id int PRIMARY KEY, user_name text) WITH " +
				"cosmosdb_provisioned_throughput = 400 AND gc_grace_seconds = 0", ""},
			{second, "INSERT INTO uprofile.user (user_id, user_name) VALUES (1, 'a')", ""},
			{second, "ALTER TABLE uprofile.user WITH cosmosdb_autoscale_max_throughput = 4000", ""},
			{reader, "SELECT * FROM uprofile.user WHERE user_id = 1", ""},
			{reader, "INSERT INTO uprofile.user (user_id) VALUES (2)",
				"User read-only has no MODIFY permission on <table uprofile.user> or any of its parents"},
			{reader, "INSERT INTO uprofile.user (user_id) VALUES (2) IF NOT EXISTS", "has no MODIFY permission"},
			{reader, "BEGIN BATCH DELETE FROM uprofile.user WHERE user_id = 1; APPLY BATCH", "has no MODIFY permission"},
			{reader, "TRUNCATE uprofile.user", "has no MODIFY permission"},
			{reader, "DROP TABLE uprofile.user", "has no DROP permission"},
			{reader, "ALTER TABLE uprofile.user WITH cosmosdb_provisioned_throughput = 1000", "has no ALTER permission"},
			{reader, "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"has no CREATE permission"},
			{reader, "LIST ROLES", "cannot view or change roles"},
			{primary, "LIST ROLES", "cannot view or change roles"},
			{primary, "CREATE ROLE evil WITH SUPERUSER = true AND LOGIN = true", "cannot view or change roles"},
			{primary, "ALTER ROLE boss WITH PASSWORD = 'x'", "cannot view or change roles"},
			{primary, "SELECT * FROM system_auth.roles", "has no SELECT permission"},
			{primary, "INSERT INTO system_auth.cidr_groups (cidr_group, cidrs) VALUES ('g', {})", "has no MODIFY permission"},
			{primary, "SELECT * FROM system.peers_v2", "table peers_v2 does not exist"},
			{primary, "SELECT * FROM system.peers", ""},
			{primary, "DROP KEYSPACE uprofile", ""},
		} {
			err := step.s.Query(step.statement).Exec()
			if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
				t.Errorf("with %d users: %s: %v, want %q", len(users), step.statement, err, step.want)
			}
		}
		if _, failed, _ := n.account.Logins.Counts(); failed != 0 {
			t.Errorf("%d logins failed", failed)
		}
		for _, wrong := range []string{"", "b", "p", o.REST.PrimaryKey[1:], rest.NewKey()} {
			if _, err := logIn(door, withKey(wrong, ca)); err == nil {
				t.Errorf("a login with key %q succeeded", wrong)
			}
		}
		if _, err := logIn(door, withTLS(ca.client(""))); err == nil {
			t.Error("a login without a key succeeded")
		}
		if _, err := logIn(n.CQLAddr().String(), withKey(o.REST.PrimaryKey, ca)); (err == nil) != (users == nil) {
			t.Errorf("with %d users, a key at the CQL address: %v", len(users), err)
		}
	}
}

// TestAccountAddress checks that a node accepts account keys only if its configuration permits them. Even with the
// insecure option, a node must not accept keys without TLS on an address that other machines can reach. It must also
// reject invalid addresses and addresses in use.
func TestAccountAddress(t *testing.T) {
	n := startNode(t, Options{})
	if n.CosmosAddr() != nil || strings.Contains(n.ReadyLine(), "account keys") {
		t.Error(n.ReadyLine())
	}
	for address, want := range map[string]string{
		"0.0.0.0:0":          "refusing to listen on 0.0.0.0:0 (cosmos_cql) without TLS",
		"10350":              `cosmos_cql address "10350" is not host:port`,
		n.CQLAddr().String(): "listen for CQL clients with account keys",
		"127.0.0.1:0":        "",
		"off":                "",
	} {
		o := Options{CQL: "127.0.0.1:0", HTTP: "off", CosmosCQL: address, Insecure: true}
		other, err := Start(context.Background(), o)
		if err == nil {
			_ = other.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}
