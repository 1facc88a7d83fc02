// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// TestRefused checks the status and sub-status that clients receive for errors of other packages.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err         error
		status, sub int
	}{
		{&dberr.Overloaded{RetryAfter: time.Second}, 429, SubThroughput},
		{&dberr.Overloaded{}, 503, 0},
		{&dberr.Unavailable{}, 503, 0},
		{coordinator.ErrRepeat, 503, 0},
		{coordinator.ErrStaleSchema, 503, 0}, // The request was not executed.
		{&dberr.WriteTimeout{}, 408, 0},
		{context.DeadlineExceeded, 408, 0},
		{coordinator.ErrUnknownTable, 404, SubOwnerMissing},
		{dberr.Invalidf("k" + partition.SizeLimitText + "of 3 bytes"), 403, SubFull},
		{dberr.Invalidf(partition.TooLongText + " 1s. It was rolled back"), 408, 0},
		{dberr.Invalidf("wrong"), 400, 0},
		{&dberr.AlreadyExists{}, 409, 0},
		{errors.New("broken"), 500, 0},
		{fmt.Errorf("wrapped: %w", preconditionFailed()), 412, 0},
	} {
		if got := refused(c.err); got.Status != c.status || got.SubStatus != c.sub || got.Code != codes[c.status] {
			t.Errorf("%v: %d/%d %s, want %d/%d", c.err, got.Status, got.SubStatus, got.Code, c.status, c.sub)
		}
	}
	if e := refused(&dberr.Overloaded{RetryAfter: time.Second}); e.RetryAfter != time.Second {
		t.Errorf("wait %v", e.RetryAfter)
	}
}

// TestNames checks that IDs that are valid in CQL keep their names and that other valid IDs receive different CQL
// names. The test also checks which IDs are rejected.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"food", "Food", "my-db", "my_db", "my.db", "é", "system", "System_x", "a b",
		"0123456789012345678901234567890123456789012345678", "x_1"} {
		name := cqlName(id)
		if seen[name] != "" || len(name) > 48 || name == "" {
			t.Errorf("%q and %q are %q", id, seen[name], name)
		}
		seen[name] = id
		if e := checkName(id); e != nil {
			t.Errorf("%q: %v", id, e)
		}
	}
	if cqlName("food") != "food" || cqlName("x_1") != "x_1" {
		t.Error("a name that CQL takes is changed")
	}
	for _, bad := range []string{"", "a/b", "a\\b", "a?", "#", "a ", "a\n"} {
		if e := checkName(bad); e == nil || e.Status != 400 {
			t.Errorf("%q: %v", bad, e)
		}
	}
}

// TestDefinitions checks which container definitions are accepted, which defaults are added and returned, and which
// definitions are rejected.
func TestDefinitions(t *testing.T) {
	d, e := ParseDefinition([]byte(`{"id":"c","partitionKey":{"paths":["/a/\"b c\""],"kind":"Hash","version":2},
		"_rid":"x","defaultTtl":-1,"other":[{"x":1}],"computedProperties":[],"indexingPolicy":{"excludedPaths":[{"path":"/*"}]}}`))
	if e != nil {
		t.Fatal(e)
	}
	const want = `{"id":"c","partitionKey":{"paths":["/a/\"b c\""],"kind":"Hash","version":2},` +
		`"defaultTtl":-1,"other":[{"x":1}],"computedProperties":[],` +
		`"indexingPolicy":{"excludedPaths":[{"path":"/*"},{"path":"/\"_etag\"/?"}],"indexingMode":"consistent",` +
		`"automatic":true},` +
		`"conflictResolutionPolicy":` + defaultConflicts + `,"geospatialConfig":` + defaultGeometry + `}`
	compact := func(s string) string {
		var out []byte
		for i := range len(s) {
			if s[i] != '\n' && s[i] != '\t' {
				out = append(out, s[i])
			}
		}
		return string(out)
	}
	if got := compact(string(d.JSON)); got != want || d.TTL != -1 || d.Hash != 2 {
		t.Errorf("%s\nwant %s", got, want)
	}
	again := viewDefinition(d.JSON)
	if len(again.Index.Excluded) != 2 || again.TTL != -1 || len(again.keyPaths) != 1 {
		t.Errorf("parsed again: %+v", again)
	}
	for _, bad := range []string{`{`, `[]`, `{"id":"a/b"}`, `{"id":"c","partitionKey":{"paths":[]}}`,
		`{"id":"c","partitionKey":{"paths":["a"]}}`, `{"id":"c","partitionKey":{"paths":["/a","/b"]}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/b","/c","/d"],"kind":"MultiHash"}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/a"],"kind":"MultiHash"}}`,
		`{"id":"c","partitionKey":{"paths":["/a"],"kind":"Range"}}`,
		`{"id":"c","defaultTtl":0}`, `{"id":"c","defaultTtl":null}`, `{"id":"c","defaultTtl":-10}`,
		`{"id":"c","uniqueKeyPolicy":{"uniqueKeys":[{"paths":[]}]}}`,
		`{"id":"c","indexingPolicy":{"indexingMode":"other"}}`,
		`{"id":"c","indexingPolicy":{"compositeIndexes":[[{"path":"/a"}]]}}`,
		`{"id":"c","indexingPolicy":{"compositeIndexes":[[{"path":"/a"},{"path":"/a","order":"descending"}]]}}`,
		`{"id":"c","indexingPolicy":{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"up"}]]}}`,
		`{"id":"c","indexingPolicy":{"includedPaths":[{"path":"a"}]}}`} {
		if _, e := ParseDefinition([]byte(bad)); e == nil || e.Status != 400 {
			t.Errorf("%s: %v", bad, e)
		}
	}
}
