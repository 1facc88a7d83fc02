// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

const (
	replicationClass  = "class"
	replicationFactor = "replication_factor"
	locatorPackage    = "org.apache.cassandra.locator."

	simpleStrategy   = "SimpleStrategy"
	topologyStrategy = "NetworkTopologyStrategy"
	localStrategy    = "LocalStrategy"
)

// StrategyName returns the short name of the strategy of a replication, such as SimpleStrategy.
func StrategyName(replication map[string]string) string {
	return strings.TrimPrefix(replication[replicationClass], locatorPackage)
}

// prepareReplication validates a replication in the same way as Cassandra and returns its stored form. The stored form
// contains the class with its package. The replication_factor of NetworkTopologyStrategy is expanded to all data
// centers. Unlike Cassandra, prepareReplication accepts data centers without nodes. The reason is that schemas of
// other clusters must be importable, and that the declaration does not affect the placement of replicas.
func prepareReplication(r *compat.Release, keyspace string, given, old map[string]string, datacenters []string) (
	map[string]string, error) {
	class := given[replicationClass]
	if !strings.Contains(class, ".") {
		class = locatorPackage + class
	}
	options := maps.Clone(given)
	delete(options, replicationClass)
	var err error
	strategy := strings.TrimPrefix(class, locatorPackage)
	_, has := options[replicationFactor]
	if !r.FactorRequired && !has && (strategy == simpleStrategy || strategy == topologyStrategy && len(options) == 0) {
		options[replicationFactor] = cmp.Or(old[replicationFactor], "1")
	}
	switch strategy {
	case simpleStrategy:
		err = checkSimple(keyspace, options)
	case topologyStrategy:
		options, err = spreadFactor(options, old, datacenters)
		if err == nil {
			err = checkTopology(options)
		}
	case localStrategy:
		const reserved = "Unable to use given strategy class: LocalStrategy is reserved for internal use."
		if err = dberr.Invalidf(reserved); r.LocalIsConfiguration {
			err = dberr.Configf(reserved)
		}
	default:
		err = dberr.Configf("Unable to find replication strategy class '%s'", class)
	}
	if err != nil {
		return nil, err
	}
	options[replicationClass] = class
	return options, nil
}

func checkSimple(keyspace string, options map[string]string) error {
	if extra := keysExcept(options, replicationFactor); len(extra) > 0 {
		return dberr.Configf("Unrecognized strategy option {%s} passed to SimpleStrategy for keyspace %s", extra[0],
			keyspace)
	}
	factor, ok := options[replicationFactor]
	if !ok {
		return dberr.Configf("SimpleStrategy requires a replication_factor strategy option.")
	}
	return checkFactor(factor)
}

func checkTopology(options map[string]string) error {
	if len(options) == 0 {
		return dberr.Configf("Configuration for at least one datacenter must be present")
	}
	for _, dc := range slices.Sorted(maps.Keys(options)) {
		if err := checkFactor(options[dc]); err != nil {
			return err
		}
	}
	return nil
}

// spreadFactor replaces replication_factor with an entry for every data center that has no entry. In ALTER KEYSPACE,
// data centers keep their existing factors.
func spreadFactor(options, old map[string]string, datacenters []string) (map[string]string, error) {
	factor, ok := options[replicationFactor]
	if !ok {
		return options, nil
	}
	if err := checkFactor(factor); err != nil {
		return nil, err
	}
	delete(options, replicationFactor)
	for dc, had := range old {
		if _, given := options[dc]; !given && dc != replicationClass && StrategyName(old) == topologyStrategy {
			options[dc] = had
		}
	}
	for _, dc := range datacenters {
		if _, given := options[dc]; !given {
			options[dc] = factor
		}
	}
	return options, nil
}

// checkFactor validates the text of a replication factor. It rejects the transient form "3/1", as Cassandra does by
// default.
func checkFactor(text string) error {
	if all, transient, ok := strings.Cut(text, "/"); ok {
		if _, err := strconv.ParseUint(all+transient, 10, 31); err == nil {
			return dberr.Configf("Transient replication is not enabled on this node")
		}
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return dberr.Configf("For input string: \"%s\"", text)
	}
	if n < 0 {
		return dberr.Configf("Replication factor must be non-negative, found %d", n)
	}
	return nil
}

// keysExcept returns the sorted keys that are not in known.
func keysExcept(m map[string]string, known ...string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(k string) bool { return slices.Contains(known, k) })
}
