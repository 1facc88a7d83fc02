// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

var (
	docBlock = regexp.MustCompile("(?ms)^```(sql|json)\n(.*?)^```")
	docNames = regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_ ]+)$`)
)

// TestDocumentation checks the results of the examples in docs/container-queries.md. The test also checks that the
// page lists all functions.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/container-queries.md")
	if err != nil {
		t.Fatal(err)
	}
	var items []document.Value
	query, examples := "", 0
	for _, m := range docBlock.FindAllStringSubmatch(string(page), -1) {
		switch {
		case m[1] == "sql":
			query = m[2]
		case query == "":
			for line := range strings.SplitSeq(strings.TrimSpace(m[2]), "\n") {
				items = append(items, parseItem(t, line))
			}
		default:
			var out strings.Builder
			_, err := mustCompile(t, query).Run(context.Background(), rowsOf(items), Run{},
				func(v document.Value) error {
					out.WriteString(v.String() + "\n")
					return nil
				})
			if err != nil || out.String() != m[2] {
				t.Errorf("%s\n got %s%v\nwant %s", query, out.String(), err, m[2])
			}
			examples++
		}
	}
	if examples < 5 {
		t.Errorf("found only %d examples", examples)
	}
	var listed []string
	for _, m := range docNames.FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, strings.Fields(m[1])...)
	}
	slices.Sort(listed)
	want := slices.Concat(slices.Collect(maps.Keys(builtins)), slices.Collect(maps.Keys(aggregateKinds)))
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the page lists %v, there are %v", listed, want)
	}
}

// serviceFunctions contains the functions in the documentation of Cosmos DB for NoSQL.
const serviceFunctions = `
ABS ACOS AGO ARRAY_AVG ARRAY_CONCAT ARRAY_CONTAINS ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY ARRAY_LENGTH ARRAY_MAX
ARRAY_MEDIAN ARRAY_MIN ARRAY_SLICE ARRAY_SUM ASIN ATAN ATN2 AVG CEILING CHOOSE CONCAT CONTAINS CONTAINS_ALL_CI
CONTAINS_ALL_CS CONTAINS_ANY_CI CONTAINS_ANY_CS COS COT COUNT COUNTIF DATETIMEADD DATETIMEBIN DATETIMEDIFF
DATETIMEFORMAT DATETIMEFROMPARTS DATETIMEPART DATETIMETOTICKS DATETIMETOTIMESTAMP DAY DEGREES DOCUMENTID ENDSWITH EXP
FLOOR FULLTEXTCONTAINS FULLTEXTCONTAINSALL FULLTEXTCONTAINSANY FULLTEXTSCORE GETCURRENTDATETIME
GETCURRENTDATETIMESTATIC GETCURRENTTICKS GETCURRENTTICKSSTATIC GETCURRENTTIMESTAMP GETCURRENTTIMESTAMPSTATIC IIF
INDEX_OF INTADD INTBITAND INTBITLEFTSHIFT INTBITNOT INTBITOR INTBITRIGHTSHIFT INTBITXOR INTDIV INTMOD INTMUL INTSUB
IS_ARRAY IS_BOOL IS_DATETIME IS_DEFINED IS_FINITE_NUMBER IS_INTEGER IS_NULL IS_NUMBER IS_OBJECT IS_PRIMITIVE
IS_STRING LASTINDEXOF LASTSUBSTRINGAFTER LASTSUBSTRINGBEFORE LEFT LENGTH LOG LOG10 LOWER LTRIM MAKELIST MAKESET MAX
MIN MONTH NOW NUMBERBIN OBJECTTOARRAY PI POWER RADIANS RAND REGEXMATCH REPLACE REPLICATE REVERSE RIGHT ROUND RRF
RTRIM SETDIFFERENCE SETEQUAL SETINTERSECT SETUNION SIGN SIN SQRT SQUARE ST_AREA ST_DISTANCE ST_INTERSECTS ST_ISVALID
ST_ISVALIDDETAILED ST_WITHIN STARTSWITH STRINGEQUALS STRINGJOIN STRINGSPLIT STRINGTOARRAY STRINGTOBOOLEAN STRINGTONULL
STRINGTONUMBER STRINGTOOBJECT SUBSTRING SUBSTRINGAFTER SUBSTRINGBEFORE SUM TAN TICKSTODATETIME TIMESTAMPTODATETIME
TOSTRING TRIM TRUNC UPPER VECTORDISTANCE YEAR`

// notSupported contains the functions of Cosmos DB that Ilion lacks.
var notSupported = []string{}

// TestServiceFunctions checks that each function in the documentation of Cosmos DB exists or is in notSupported.
func TestServiceFunctions(t *testing.T) {
	for _, name := range strings.Fields(serviceFunctions) {
		_, isBuiltin := builtins[name]
		_, isAggregate := aggregateKinds[name]
		if exists := isBuiltin || isAggregate; exists == slices.Contains(notSupported, name) {
			t.Errorf("%s: exists: %t, listed as not supported: %t", name, exists, exists)
		}
	}
}
