// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strconv"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These are the throughput options. The options are stored under the names of Azure Cosmos DB. Ilion's own names also
// accept 0 for no throughput.
const (
	cosmosThroughput = "cosmosdb_provisioned_throughput"
	cosmosAutoscale  = "cosmosdb_autoscale_max_throughput"
	ownThroughput    = "throughput"
	ownAutoscale     = "autoscale_max_throughput"
)

// throughputMax is the maximum throughput of a table or a keyspace, in request units per second.
const throughputMax = 1_000_000

// throughputOf returns the option that a property sets, or an empty string if the property is not a throughput.
func throughputOf(name string) string {
	switch name {
	case cosmosThroughput, ownThroughput:
		return cosmosThroughput
	case cosmosAutoscale, ownAutoscale:
		return cosmosAutoscale
	}
	return ""
}

// checkThroughputs rejects a statement that sets both kinds of throughput. Cosmos DB also rejects such a statement.
func checkThroughputs(properties []Property) error {
	var manual, autoscale string
	for i := range properties {
		switch name := properties[i].Name; throughputOf(name) {
		case cosmosThroughput:
			manual = name
		case cosmosAutoscale:
			autoscale = name
		}
	}
	if manual != "" && autoscale != "" {
		return dberr.Configf("%s and %s cannot both be set: a throughput is either fixed or scaled automatically. "+
			"Remove one of them.", manual, autoscale)
	}
	return nil
}

// throughput validates a throughput in the same way as Cosmos DB.
func (o *cosmosOption) throughput(p *Property, text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n == 0 && p.Name != o.name {
		return nil
	}
	if err != nil || n < o.least || n%o.step != 0 || n > throughputMax {
		return dberr.Configf("%s must be from %[2]d to %[4]d request units per second, in steps of %[3]d, not %[5]s",
			p.Name,
			o.least, o.step, throughputMax, text)
	}
	return nil
}

// Throughput is the provisioned throughput of a table or a keyspace, in request units per second.
type Throughput struct {
	// Units is 0 if the throughput is unlimited.
	Units int64
	// Autoscale means that Units is the maximum throughput. A tenth of the maximum is reserved.
	Autoscale bool
	// Shared means that all tables of the keyspace that have no throughput option share this throughput.
	Shared bool
}

func throughputIn(options map[string]string) (t Throughput) {
	if len(options) == 0 {
		return t
	}
	if t.Units, _ = strconv.ParseInt(options[cosmosThroughput], 10, 64); t.Units == 0 {
		t.Units, _ = strconv.ParseInt(options[cosmosAutoscale], 10, 64)
		t.Autoscale = t.Units > 0
	}
	return t
}

// Throughput returns the throughput of a table, or the throughput that the table shares with other tables of its
// keyspace.
func (ks *Keyspace) Throughput(t *Table) Throughput {
	if own := throughputIn(t.Options.Cosmos); own.Units > 0 {
		return own
	}
	shared := throughputIn(ks.Options)
	shared.Shared = shared.Units > 0
	return shared
}
