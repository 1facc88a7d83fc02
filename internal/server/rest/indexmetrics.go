// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/base64"
	"encoding/json"
	"net/url"

	"github.com/ilion-db/ilion/internal/query/container"
)

// singleIndex is an index on one path in the client's format.
type singleIndex struct {
	FilterExpression string `json:",omitempty"`
	IndexSpec        string
	FilterPreciseSet bool
	IndexPreciseSet  bool
	IndexImpactScore string
}

func singleIndexes(paths []string) []singleIndex {
	out := make([]singleIndex, len(paths))
	for i, p := range paths {
		out[i] = singleIndex{IndexSpec: p, FilterPreciseSet: true, IndexPreciseSet: true, IndexImpactScore: "High"}
	}
	return out
}

// compositeIndex is an index on several paths, such as /a ASC.
type compositeIndex struct {
	IndexSpecs       []string
	IndexImpactScore string
}

func compositeIndexes(specs [][]string) []compositeIndex {
	out := make([]compositeIndex, len(specs))
	for i, s := range specs {
		out[i] = compositeIndex{IndexSpecs: s, IndexImpactScore: "High"}
	}
	return out
}

// indexMetrics sets the index utilization header if the client requests it. The header lists the used and the
// potential indexes as JSON in base64. In the second format, the header lists the indexes as URL-encoded JSON.
func (x *exchange) indexMetrics(u *container.IndexUtilization) {
	used, missed := singleIndexes(u.UtilizedSingle), singleIndexes(u.PotentialSingle)
	combined, lacking := compositeIndexes(u.UtilizedComposite), compositeIndexes(u.PotentialComposite)
	type section struct {
		SingleIndexes    []singleIndex
		CompositeIndexes []compositeIndex
	}
	switch {
	case flag(x.header, hIndexMetrics):
		text, _ := json.Marshal(struct {
			UtilizedSingleIndexes     []singleIndex
			PotentialSingleIndexes    []singleIndex
			UtilizedCompositeIndexes  []compositeIndex
			PotentialCompositeIndexes []compositeIndex
		}{used, missed, combined, lacking})
		x.set(aIndexMetrics, base64.StdEncoding.EncodeToString(text))
	case flag(x.header, hIndexMetricsV2):
		text, _ := json.Marshal(struct{ Utilized, Potential section }{
			section{used, combined}, section{missed, lacking}})
		x.set(aIndexMetrics, url.PathEscape(string(text)))
	}
}
