// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// Throughput is the provisioned throughput of a container or a database in request units per second. At most one of
// Manual and Autoscale is set.
type Throughput struct {
	// Manual is a fixed throughput. Autoscale is the maximum of a throughput that depends on the load.
	Manual, Autoscale int64
	// Increment is the percentage by which Autoscale grows when the stored data requires it. It is reported but has no
	// effect, because storage is independent of the throughput.
	Increment int64
}

// incrementMax is the maximum of Throughput.Increment.
const incrementMax = 100

// reportedThroughput is the throughput that is reported if none is provisioned.
const reportedThroughput = 400

// These are the throughput properties, with the names that Cosmos DB's Cassandra API uses.
const (
	manualProperty    = "cosmosdb_provisioned_throughput"
	autoscaleProperty = "cosmosdb_autoscale_max_throughput"
)

// properties returns the schema properties that set a throughput.
func (t Throughput) properties() ([]schema.Property, *Error) {
	const most = 1_000_000
	switch {
	case t == Throughput{}:
		return nil, nil
	case t.Manual != 0 && t.Autoscale != 0:
		return nil, Errorf(400, 0, "Specify either a manual throughput or an autoscale maximum, not both.")
	case t.Autoscale != 0:
		if t.Autoscale < 1000 || t.Autoscale%1000 != 0 || t.Autoscale > most {
			return nil, Errorf(400, 0, "The autoscale maximum throughput must be a multiple of 1000 from 1000 to %d, not %d.",
				most, t.Autoscale)
		}
		if t.Increment < 0 || t.Increment > incrementMax {
			return nil, Errorf(400, 0, "The increment of an autoscale throughput must be from 0 to %d percent, not %d.",
				incrementMax, t.Increment)
		}
		return []schema.Property{{Name: autoscaleProperty, Value: strconv.FormatInt(t.Autoscale, 10)}}, nil
	case t.Manual < reportedThroughput || t.Manual%100 != 0 || t.Manual > most:
		return nil, Errorf(400, 0, "The throughput must be a multiple of 100 from %d to %d, not %d.", reportedThroughput,
			most, t.Manual)
	}
	return []schema.Property{{Name: manualProperty, Value: strconv.FormatInt(t.Manual, 10)}}, nil
}

// Offer is the throughput of a container or a database as a resource.
type Offer struct {
	// ID is the last part of the link offers/<id>/ and also the resource ID of the offer. Resource is the Self link of
	// the container or database, and ResourceRID is its resource ID.
	ID, Resource, ResourceRID, Etag string
	TS                              int64
	// Throughput is the reported throughput. For a container without dedicated or shared throughput, it is 400. This
	// value is not enforced.
	Throughput

	database  *Database
	container *Container
}

func throughputOf(t schema.Throughput, increment int64) Throughput {
	if t.Autoscale {
		return Throughput{Autoscale: t.Units, Increment: increment}
	}
	return Throughput{Manual: t.Units}
}

// offerID returns the ID of a resource's offer. It consists of 4 characters of the resource ID alphabet.
func offerID(number uint32) string { return strings.TrimRight(encodeRID(ridOfDatabase(number)), "=") }

// etagOfOffer returns the etag of a database's throughput, which is the last schema revision that changed the
// throughput.
func etagOfOffer(ks *schema.Keyspace) string {
	return etagOf(ks.Database.Revision<<32 | uint64(ks.Database.Number))
}

// Offers lists the offers. Each database with a throughput has an offer. Each container that does not share a
// throughput also has an offer.
func (r *directory) Offers() (out []*Offer) {
	for _, d := range r.Databases() {
		shared := d.keyspace.Throughput(&schema.Table{})
		if shared.Units > 0 {
			of := d.keyspace.Database
			out = append(out, &Offer{ID: offerID(of.Number), Resource: d.Self(), ResourceRID: d.RID,
				Etag: etagOfOffer(d.keyspace), TS: d.TS, Throughput: throughputOf(shared, of.Increment), database: d})
		}
		for _, c := range r.Containers(d) {
			t := d.keyspace.Throughput(c.table)
			if t.Shared {
				continue
			}
			o := &Offer{ID: offerID(c.table.ID), Resource: c.Self(), ResourceRID: c.RID, Etag: c.Etag, TS: c.TS,
				Throughput: throughputOf(t, c.table.Container.Increment), container: c}
			if t.Units == 0 {
				o.Manual = reportedThroughput
			}
			out = append(out, o)
		}
	}
	return out
}

// Offer finds an offer by its ID, ignoring case. Offer returns 404 if none exists. If several IDs differ only in case,
// it returns the first match.
func (r *directory) Offer(id string) (*Offer, error) {
	var found *Offer
	for _, o := range r.Offers() {
		if o.ID == id {
			return o, nil
		}
		if found == nil && strings.EqualFold(o.ID, id) {
			found = o
		}
	}
	if found == nil {
		return nil, Errorf(404, 0, "Offer %s does not exist.", strconv.Quote(id))
	}
	return found, nil
}

// ReplaceOffer changes a throughput. ReplaceOffer returns 400 if a manual throughput is less than 400 or not a
// multiple of 100, or if an autoscale maximum is less than 1000 or not a multiple of 1000. ReplaceOffer returns 412 if
// ifMatch is not empty and does not match the etag.
func (f *definer) ReplaceOffer(ctx context.Context, o *Offer, t Throughput, ifMatch string) (*Offer, error) {
	properties, bad := t.properties()
	if bad != nil {
		return nil, bad
	}
	if len(properties) == 0 {
		return nil, Errorf(400, 0, "The offer does not specify a throughput.")
	}
	var err error
	if o.container != nil {
		err = f.change(ctx, o.container, ifMatch, properties, func(c *schema.Container, _ *schema.Replacing) error {
			c.Increment = t.Increment
			return nil
		})
	} else {
		err = refusedIf(f.apply(ctx, &schema.AlterKeyspace{Stamp: f.stamp(), Name: o.database.keyspace.Name,
			Properties: properties, Change: func(d *schema.Database) { d.Increment = t.Increment },
			Check: func(s *schema.Schema) error {
				ks, err := o.database.in(s, "")
				if err == nil && !matches(ifMatch, etagOfOffer(ks)) {
					return preconditionFailed()
				}
				return err
			}}))
	}
	if err != nil {
		return nil, err
	}
	return f.Offer(o.ID)
}
