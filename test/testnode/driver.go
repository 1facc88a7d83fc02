// SPDX-License-Identifier: Apache-2.0

package testnode

import (
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/crypto/bcrypt"
)

// Driver opens a session of the Go driver with the node at a CQL address. The session closes at the end of the test. An
// empty role means that the session does not log in.
func Driver(t testing.TB, addr, role, password string) *gocql.Session {
	t.Helper()
	o := gocql.NewCluster(addr)
	if role != "" {
		o.Authenticator = gocql.PasswordAuthenticator{Username: role, Password: password}
	}
	s, err := o.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// User returns the options for a node with one user.
func User(t testing.TB, name, password string) map[string]string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{name: string(hash)}
}
