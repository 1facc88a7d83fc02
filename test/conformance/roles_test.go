// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion"
)

// superuser is the user with which the recordings were made.
const superuser = "cassandra"

// superusers returns the configuration of the superuser, which contains its name and the hash of its password.
func superusers(t *testing.T) map[string]string {
	hash, err := bcrypt.GenerateFromPassword([]byte(superuser), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{superuser: string(hash)}
}

// TestRoles replays recordings that need logins on a node with the superuser of the recordings. By default, it replays
// the roles and permissions of Cassandra 5.0.5 and the scenarios of 4.0. The flag -only selects other tests. It omits
// no steps. Steps that need views or functions are listed as differences.
func TestRoles(t *testing.T) {
	t.Parallel()
	db, err := ilion.Start(t.Context(), ilion.Options{Users: superusers(t), Compatibility: "4.0",
		UserDefinedFunctions: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	at := target{addrs: []string{db.CQLAddr().String()}}
	known := readDifferences(t, "differences_roles.txt")
	results := map[string]*result{}
	for _, f := range recordings() {
		name := filepath.Base(f)
		if *only == "" && filepath.Dir(f) != "testdata" {
			continue
		}
		recs, err := load(f, name)
		if err != nil {
			t.Fatal(err)
		}
		sum := &result{}
		for i := range recs {
			if slices.Equal(recs[i].Needs, []string{"auth"}) && (*only == "" || strings.Contains(recs[i].Test, *only)) {
				sum.add(replayTest(at, &recs[i]))
			}
		}
		results[name] = sum
	}
	report(t, results, known, shares{82, 60})
	if *rewrite {
		writeDifferences(t, "differences_roles.txt", results, known)
	}
}
