// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// TestRegionBytes pins the encoding of a region's record. A record with an unknown field or state must be rejected as
// newer unless the field is optional.
func TestRegionBytes(t *testing.T) {
	r := &Region{Name: "eu", Number: 300, State: RegionRemoved}
	if got := hex.EncodeToString(r.Append(nil)); got != "01ac020100" {
		t.Errorf("encoded as %s", got)
	}
	for _, c := range []struct {
		name, record string
		want         error
	}{
		{"valid", "01ac020100", nil},
		{"an ignorable field", "01ac02001201" + "2a00", nil},
		{"a required field", "01ac02001301" + "2a00", feature.ErrNewer},
		{"another state", "01ac020200", feature.ErrNewer},
		{"another format", "02", feature.ErrNewer},
		{"empty", "", ErrMalformed},
		{"truncated", "01ac", ErrMalformed},
	} {
		record, err := hex.DecodeString(c.record)
		if err != nil {
			t.Fatal(err)
		}
		r, err := DecodeRegion("eu", record)
		if !errors.Is(err, c.want) || c.want == nil && hex.EncodeToString(r.Append(nil)) != c.record {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

// TestRegionRecords checks that regions are stored and loaded, and that a removed region is not found by its name.
func TestRegionRecords(t *testing.T) {
	empty := Empty()
	put, err := empty.Diff(empty.WithRegion(&Region{Name: "us"}).WithRegion(&Region{Name: "eu", Number: 1}))
	if err != nil || len(put) != 2 {
		t.Fatalf("%d records, %v", len(put), err)
	}
	s, err := empty.applyChange(1, put)
	if err != nil || s.Region("us") == nil || s.Region("eu").Number != 1 || s.Region("ap") != nil {
		t.Fatalf("%+v, %v", s.Regions, err)
	}
	gone := *s.Region("eu")
	gone.State = RegionRemoved
	if put, err = s.Diff(s.WithRegion(&gone)); err != nil || len(put) != 1 {
		t.Fatalf("%d records, %v", len(put), err)
	}
	next, err := s.applyChange(2, put)
	if err != nil || next.Region("eu") != nil || next.Regions["eu"].Number != 1 {
		t.Fatalf("%+v, %v", next.Regions, err)
	}
	if next.Regions["us"] != s.Regions["us"] {
		t.Error("an unchanged region was decoded again (MT2)")
	}
	next, err = next.applyChange(3, []command.Record{{Key: []byte("region/eu")}})
	if err != nil || next.Regions["eu"] != nil || len(next.Regions) != 1 {
		t.Errorf("%+v, %v", next.Regions, err)
	}
}
