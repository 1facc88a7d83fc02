// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// Throughput is what a container or a database may take, in request units a second. At most one of Manual and Autoscale
// is set.
type Throughput struct {
	// Manual is a fixed amount, Autoscale the most of one that follows the load.
	Manual, Autoscale int64
	// Increment belongs to Autoscale: by how many percent to raise it when what is stored needs more. It is shown and
	// has no effect, as storage is not bound to the throughput.
	Increment int64
}

// incrementMax bounds Throughput.Increment.
const incrementMax = 100

// reportedThroughput is what is reported where there is none.
const reportedThroughput = 400

// The properties of a throughput, as Cosmos DB's Cassandra API names them.
const (
	manualProperty    = "cosmosdb_provisioned_throughput"
	autoscaleProperty = "cosmosdb_autoscale_max_throughput"
)

// properties are those that set a throughput.
func (t Throughput) properties() ([]schema.Property, *Error) {
	const most = 1_000_000
	switch {
	case t == Throughput{}:
		return nil, nil
	case t.Manual != 0 && t.Autoscale != 0:
		return nil, Errorf(400, 0, "A throughput is either manual or an autoscale maximum, not both.")
	case t.Autoscale != 0:
		if t.Autoscale < 1000 || t.Autoscale%1000 != 0 || t.Autoscale > most {
			return nil, Errorf(400, 0, "The autoscale maximum throughput has to be from 1000 to %d in steps of 1000, not %d.",
				most, t.Autoscale)
		}
		if t.Increment < 0 || t.Increment > incrementMax {
			return nil, Errorf(400, 0, "The increment of an autoscale throughput has to be from 0 to %d percent, not %d.",
				incrementMax, t.Increment)
		}
		return []schema.Property{{Name: autoscaleProperty, Value: strconv.FormatInt(t.Autoscale, 10)}}, nil
	case t.Manual < reportedThroughput || t.Manual%100 != 0 || t.Manual > most:
		return nil, Errorf(400, 0, "The throughput has to be from %d to %d in steps of 100, not %d.", reportedThroughput,
			most, t.Manual)
	}
	return []schema.Property{{Name: manualProperty, Value: strconv.FormatInt(t.Manual, 10)}}, nil
}

// Offer is the throughput of a container or a database as a resource.
type Offer struct {
	// ID is the last part of the link offers/<id>/, also its resource id. Resource is the Self of what it is for, and
	// ResourceRID its resource id.
	ID, Resource, ResourceRID, Etag string
	TS                              int64
	// Throughput is what is reported: 400 for a container that has no throughput of its own and none to share, which
	// then is not held to it.
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

// offerID is the id of the offer of a resource: 4 letters in the alphabet of resource ids.
func offerID(number uint32) string { return strings.TrimRight(encodeRID(ridOfDatabase(number)), "=") }

// etagOfOffer is the etag of the throughput of a database: by the revision of the schema that has changed it last.
func etagOfOffer(ks *schema.Keyspace) string {
	return etagOf(ks.Database.Revision<<32 | uint64(ks.Database.Number))
}

// Offers lists the offers: one for each database that has a throughput, and for each container that does not share one.
func (e *Engine) Offers() (out []*Offer) {
	for _, d := range e.Databases() {
		shared := d.keyspace.Throughput(&schema.Table{})
		if shared.Units > 0 {
			of := d.keyspace.Database
			out = append(out, &Offer{ID: offerID(of.Number), Resource: d.Self(), ResourceRID: d.RID,
				Etag: etagOfOffer(d.keyspace), TS: d.TS, Throughput: throughputOf(shared, of.Increment), database: d})
		}
		for _, c := range e.Containers(d) {
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

// Offer finds an offer by its id in any case, 404 if there is none. Of ids that differ in case alone it is the first.
func (e *Engine) Offer(id string) (*Offer, error) {
	var found *Offer
	for _, o := range e.Offers() {
		if o.ID == id {
			return o, nil
		}
		if found == nil && strings.EqualFold(o.ID, id) {
			found = o
		}
	}
	if found == nil {
		return nil, Errorf(404, 0, "There is no offer %s.", strconv.Quote(id))
	}
	return found, nil
}

// ReplaceOffer changes a throughput; 400 if it is not one of 400 and more in steps of 100, or for Autoscale of 1000 and
// more in steps of 1000. ifMatch, if not empty, is the etag that the offer has to have (412).
func (e *Engine) ReplaceOffer(ctx context.Context, o *Offer, t Throughput, ifMatch string) (*Offer, error) {
	properties, bad := t.properties()
	if bad != nil {
		return nil, bad
	}
	if len(properties) == 0 {
		return nil, Errorf(400, 0, "An offer needs a throughput.")
	}
	var err error
	if o.container != nil {
		err = e.change(ctx, o.container, ifMatch, properties, func(c *schema.Container, _ *schema.Replacing) error {
			c.Increment = t.Increment
			return nil
		})
	} else {
		err = refusedIf(e.apply(ctx, &schema.AlterKeyspace{Stamp: e.stamp(), Name: o.database.keyspace.Name,
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
	return e.Offer(o.ID)
}
