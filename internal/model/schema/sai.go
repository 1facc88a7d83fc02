// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// CustomKind is the kind of storage-attached indexes in system_schema.indexes. Their entries are ordered by value.
// Entries of other indexes (kind COMPOSITES) are not ordered.
const CustomKind = "CUSTOM"

// These are the index options that have an effect. class_name stores the class as the statement specified it.
const (
	classOption      = "class_name"
	targetOption     = "target"
	caseOption       = "case_sensitive"
	normalizeOption  = "normalize"
	asciiOption      = "ascii"
	similarityOption = "similarity_function"
	nodesOption      = "maximum_node_connections"
	beamOption       = "construction_beam_width"
	optimizeOption   = "optimize_for"
)

// LegacyClass is the class of an index if the statement specifies no class.
const LegacyClass = "legacy_local_table"

// attachedOptions lists the options that storage-attached indexes support.
var attachedOptions = []string{caseOption, normalizeOption, asciiOption, similarityOption, nodesOption, beamOption,
	optimizeOption}

// analysisOptions lists the options of text analysis.
var analysisOptions = []string{caseOption, normalizeOption, asciiOption}

// IsAttachedClass reports whether a class in a USING clause is a class of storage-attached indexes.
func IsAttachedClass(class string) bool {
	switch strings.ToLower(class) {
	case "sai", "storageattachedindex":
		return true
	}
	return class == "org.apache.cassandra.index.sai.StorageAttachedIndex"
}

// Attached reports whether an index is a storage-attached index.
func (i *Index) Attached() bool { return i.Kind == CustomKind }

// Analysis is the text analysis that an index applies before it compares texts.
type Analysis struct {
	// Lower converts letters to lower case. Normalize composes characters (NFC). ASCII replaces letters with
	// diacritics, ligatures, and similar characters with similar ASCII letters.
	Lower, Normalize, ASCII bool
}

// Analysis returns the text analysis that the options of the index specify.
func (i *Index) Analysis() Analysis {
	return Analysis{
		Lower:     strings.EqualFold(i.Options[caseOption], "false"),
		Normalize: strings.EqualFold(i.Options[normalizeOption], "true"),
		ASCII:     strings.EqualFold(i.Options[asciiOption], "true"),
	}
}

// Analyzed reports whether an analysis option is specified, even if it has no effect.
func (i *Index) Analyzed() bool {
	return slices.ContainsFunc(analysisOptions, func(name string) bool { _, given := i.Options[name]; return given })
}

// Any reports whether the analysis has any effect.
func (a Analysis) Any() bool { return a != Analysis{} }

// OfVectors reports whether an index of the table contains vectors of a vector column or of a collection.
func (t *Table) OfVectors(ix *Index) bool {
	c := t.ByName[ix.Column]
	if !ix.Attached() || c == nil {
		return false
	}
	types := ix.Indexed(c)
	return len(types) == 1 && types[0].Kind == cqltype.Vector
}

// VectorIndexes returns the number of storage-attached vector indexes.
func (t *Table) VectorIndexes() (n int) {
	for _, ix := range t.Indexes {
		if t.OfVectors(ix) {
			n++
		}
	}
	return n
}

// Indexed returns the type of the indexed values. For the entries of a map, it returns two types.
func (i *Index) Indexed(c *Column) []*cqltype.Type {
	t := c.Type
	switch {
	case i.Target == IndexEntries:
		return t.Elems
	case i.Target == IndexKeys:
		return t.Elems[:1]
	case i.Target == IndexValues:
		return t.Elems[len(t.Elems)-1:]
	}
	return []*cqltype.Type{t}
}

// checkAttached checks the rules that apply only to storage-attached indexes.
func (c *CreateIndex) checkAttached(t *Table, index *Index) error {
	if err := c.checkNames(); err != nil {
		return err
	}
	column := t.ByName[index.Column]
	if slices.ContainsFunc(t.SortedIndexes(), func(o *Index) bool {
		return o.Attached() && o.Column == index.Column && o.Target == index.Target
	}) {
		return dberr.Invalidf("Cannot create more than one storage-attached index on the same column: %s", index.Column)
	}
	types := index.Indexed(column)
	if err := checkAnalysis(index, column, types); err != nil {
		return err
	}
	if err := checkVectorOptions(index, types[0]); err != nil {
		return err
	}
	if types[0].Kind == cqltype.Vector && len(types) == 1 {
		return checkVectors(index, types[0])
	}
	for _, typ := range types {
		if !attachable(typ) {
			return dberr.Invalidf("Unsupported type: %s", typ)
		}
	}
	return nil
}

// checkNames rejects options that storage-attached indexes do not support.
func (c *CreateIndex) checkNames() error {
	var unknown []string
	for _, e := range c.options() {
		if !slices.Contains(attachedOptions, e.Key) {
			unknown = append(unknown, e.Key)
		}
	}
	if len(unknown) > 0 {
		return dberr.Configf("Properties specified [%s] are not understood by StorageAttachedIndex",
			strings.Join(unknown, ", "))
	}
	return nil
}

// attachable reports whether values of a type can be indexed.
func attachable(t *cqltype.Type) bool {
	switch t.Kind {
	case cqltype.Blob, cqltype.Counter, cqltype.Duration, cqltype.Custom, cqltype.Vector:
		return false
	case cqltype.List, cqltype.Set, cqltype.Map, cqltype.UDT:
		return !t.MultiCell()
	}
	return true
}

func isText(t *cqltype.Type) bool { return t.Kind == cqltype.Text || t.Kind == cqltype.Ascii }

// checkAnalysis checks the analysis options.
func checkAnalysis(index *Index, c *Column, types []*cqltype.Type) error {
	given := false
	for _, name := range analysisOptions {
		value, ok := index.Options[name]
		if !ok {
			continue
		}
		given = true
		if c.Kind.IsKey() {
			continue
		}
		if len(types) > 1 {
			return dberr.Invalidf("CQL type 'org.apache.cassandra.db.marshal.CompositeType(%s,%s)' cannot be analyzed.",
				types[0].JavaClass(), types[1].JavaClass())
		}
		if !isText(types[0]) {
			return dberr.Invalidf("CQL type %s cannot be analyzed.", types[0])
		}
		switch {
		case value == "":
			return dberr.Invalidf("Empty value for boolean option '%s'", name)
		case !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false"):
			return dberr.Invalidf("Illegal value for boolean option '%s': %s", name, value)
		}
	}
	if given && c.Kind.IsKey() {
		kept := map[string]string{}
		for _, name := range analysisOptions {
			if value, ok := index.Options[name]; ok {
				kept[name] = value
			}
		}
		return dberr.Invalidf("Analysis options are not supported on primary key columns, but found %s", FormatMap(kept))
	}
	return nil
}

// checkVectorOptions checks the options of vector indexes.
func checkVectorOptions(index *Index, t *cqltype.Type) error {
	for _, name := range []string{nodesOption, beamOption, optimizeOption, similarityOption} {
		if _, given := index.Options[name]; given && t.Kind != cqltype.Vector {
			return dberr.Invalidf("CQL type %s cannot have vector options", t)
		}
	}
	const without = " cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS"
	if _, given := index.Options[nodesOption]; given {
		return dberr.Invalidf("Maximum node connections" + without)
	}
	if _, given := index.Options[beamOption]; given {
		return dberr.Invalidf("Construction beam width" + without)
	}
	if s, given := index.Options[similarityOption]; given {
		if _, ok := vector.Parse(s); !ok {
			return dberr.Invalidf("Similarity function %s was not recognized for index null. Valid values are: EUCLIDEAN, "+
				"DOT_PRODUCT, COSINE", strings.ToUpper(s))
		}
	}
	if o, given := index.Options[optimizeOption]; given {
		if o = strings.ToUpper(o); o != "LATENCY" && o != "RECALL" {
			return dberr.Invalidf("optimize_for '%s' was not recognized for index null. Valid values are: LATENCY, RECALL", o)
		}
	}
	return nil
}

func checkVectors(index *Index, t *cqltype.Type) error {
	if t.Elems[0].Kind != cqltype.Float {
		return dberr.Invalidf("SAI ANN indexes are only allowed on vector columns with float elements")
	}
	if t.Dimension == 1 && index.Similarity() == vector.Cosine {
		return dberr.Invalidf("Cosine similarity is not supported for single-dimension vectors")
	}
	return nil
}
