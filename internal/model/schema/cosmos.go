// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// cosmosPrefix is the prefix of Azure Cosmos DB's options, which are stored unchanged.
const cosmosPrefix = "cosmosdb_"

// cosmosOption is an option of Azure Cosmos DB's Cassandra API.
type cosmosOption struct {
	name string
	// least is the minimum of a throughput in request units per second, and step is its granularity, as in Cosmos DB.
	// If they are 0, the option is a boolean that applies only to tables.
	least, step int64
}

var cosmosOptions = []cosmosOption{
	{cosmosThroughput, 400, 100},
	{cosmosAutoscale, 1000, 1000},
	{"cosmosdb_cell_level_timestamp", 0, 0},
	{"cosmosdb_cell_level_timestamp_tombstones", 0, 0},
	{"cosmosdb_cell_level_timetolive", 0, 0},
}

// setCosmos stores an option of Cosmos DB. It rejects options and values that Cosmos DB does not accept, because they
// have no visible effect. Setting one kind of throughput removes the other kind.
func setCosmos(options *map[string]string, p *Property, table bool) error {
	name := p.Name
	if t := throughputOf(name); t != "" {
		name = t
	}
	i := slices.IndexFunc(cosmosOptions, func(o cosmosOption) bool {
		return o.name == name && (table || o.least > 0)
	})
	if i < 0 {
		return dberr.Syntaxf("Unknown property '%s'", p.Name)
	}
	text, err := p.simple()
	if err != nil {
		return err
	}
	if o := &cosmosOptions[i]; o.least > 0 {
		if err := o.throughput(p, text); err != nil {
			return err
		}
	} else if !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
		return dberr.Configf("%s must be true or false, not %s", p.Name, text)
	}
	if *options == nil {
		*options = map[string]string{}
	}
	if cosmosOptions[i].least > 0 {
		delete(*options, cosmosThroughput)
		delete(*options, cosmosAutoscale)
		if text == "0" {
			return nil
		}
	}
	(*options)[name] = text
	return nil
}
