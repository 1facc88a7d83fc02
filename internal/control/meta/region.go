// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// RegionState is the state of a region.
type RegionState uint8

// These are the states of a region. The nodes of a RegionPresent region are members of the cluster. The record of a
// RegionRemoved region remains, so that its number is not assigned again.
const (
	RegionPresent RegionState = iota
	RegionRemoved
)

// Region is a region in which the cluster may have nodes. It requires feature level feature.Regions.
type Region struct {
	Name string
	// Number identifies the region in data directories. It is 0 for the region in which the cluster was created. A
	// number is never reused, even for a region with the same name.
	Number uint32
	State  RegionState

	rest []byte // encoded fields of later versions
}

// regionFormat is the format of a region's record.
const regionFormat = 1

// Append appends the encoded region without its name. It includes the fields of later versions.
func (r *Region) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, regionFormat))
	w.Uint(uint64(r.Number))
	w.Uint(uint64(r.State))
	w.Raw(r.rest)
	w.EndFields()
	return w
}

// DecodeRegion decodes a region that this version or a later version of Append has written. The error is ErrMalformed
// or *feature.Newer.
func DecodeRegion(name string, src []byte) (*Region, error) {
	if len(src) == 0 || src[0] == 0 {
		return nil, ErrMalformed
	}
	if src[0] > regionFormat {
		return nil, &feature.Newer{What: "a region record", Unit: "format", Has: uint64(src[0]), Newest: regionFormat}
	}
	v := codec.NewReader(src[1:], ErrMalformed)
	r := &Region{Name: name, Number: v.Uint32()}
	state, refused := v.Uint(), uint64(0)
	var rest codec.Writer
	for f := v.Field(0); f.Number != 0; f = v.Field(f.Number) {
		if f.Must {
			refused = cmp.Or(refused, f.Number)
		}
		rest.Field(f.Number, f.Must, f.Value)
	}
	r.State, r.rest = RegionState(min(state, uint64(RegionRemoved))), rest
	switch {
	case v.End() != nil:
		return nil, ErrMalformed
	case refused != 0:
		return nil, &feature.Newer{What: "a region record", Unit: "field", Has: refused}
	case state > uint64(RegionRemoved):
		return nil, &feature.Newer{What: "a region record", Unit: "state", Has: state, Newest: uint64(RegionRemoved)}
	}
	return r, nil
}

// Region returns the region with the given name, or nil if the region does not exist or has been removed.
func (s *State) Region(name string) *Region {
	if r := s.Regions[name]; r != nil && r.State == RegionPresent {
		return r
	}
	return nil
}

// WithRegion returns a state that contains r. It replaces an existing region with the same name.
func (s *State) WithRegion(r *Region) *State {
	next := *s
	next.Regions = with(s.Regions, r.Name, r, true)
	return &next
}

// nextRegions decodes the changed regions.
func (s *State) nextRegions(records map[string][]byte, changed []string) (map[string]*Region, error) {
	if !touches(changed, regionPrefix) {
		return s.Regions, nil
	}
	regions := maps.Clone(s.Regions)
	if regions == nil {
		regions = map[string]*Region{}
	}
	i, _ := slices.BinarySearch(changed, regionPrefix)
	for ; i < len(changed); i++ {
		name, ok := strings.CutPrefix(changed[i], regionPrefix)
		if !ok {
			break
		}
		record, ok := records[changed[i]]
		if !ok {
			delete(regions, name)
			continue
		}
		r, err := DecodeRegion(name, record)
		if err != nil {
			return nil, fmt.Errorf("region %q: %w", name, err)
		}
		regions[name] = r
	}
	return regions, nil
}
