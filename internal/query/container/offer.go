// SPDX-License-Identifier: Apache-2.0

package container

import "context"

// Throughput is what a container or a database may take, in request units a second. At most one of the fields is set.
type Throughput struct {
	// Manual is a fixed amount, Autoscale the most of one that follows the load.
	Manual, Autoscale int64
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
}

// Offers lists the offers: one for each database that has a throughput, and for each container that does not share one.
func (e *Engine) Offers() []*Offer { return nil }

// Offer finds an offer by its id in any case, 404 if there is none.
func (e *Engine) Offer(id string) (*Offer, error) { return nil, nil }

// ReplaceOffer changes a throughput; 400 if it is not one of 400 and more in steps of 100, or for Autoscale of 1000 and
// more in steps of 1000.
func (e *Engine) ReplaceOffer(ctx context.Context, o *Offer, t Throughput) (*Offer, error) {
	return nil, nil
}
