// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/ilion-db/ilion/internal/query/container"
)

// TestConditionsOfChanges checks that only the first of two changes with the same etag succeeds. It covers containers,
// scripts, and offers. A change or deletion of a dropped resource must fail with status 404. The change must not
// affect a new resource with the same name.
func TestConditionsOfChanges(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	const definition = `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`
	e, s := n.Containers, newContainer(t, n, definition)
	status := func(want int, err error) {
		t.Helper()
		if err == nil && want != 200 || err != nil && container.StatusOf(err) != want {
			t.Errorf("%v, want %d", err, want)
		}
	}
	script, err := e.CreateScript(t.Context(), s.c, container.StoredProcedure, []byte(`{"id":"p","body":"x"}`))
	status(200, err)
	_, err = e.ReplaceScript(t.Context(), s.c, script, []byte(`{"id":"p","body":"y"}`), script.Etag)
	status(200, err)
	status(412, e.DeleteScript(t.Context(), s.c, script, script.Etag))
	c := itemsOf(t, n).c
	_, err = e.ReplaceContainer(t.Context(), c, []byte(definition), c.Etag)
	status(200, err)
	_, err = e.ReplaceContainer(t.Context(), c, []byte(definition), c.Etag)
	status(412, err)
	status(412, e.DeleteContainer(t.Context(), c, c.Etag))
	status(412, e.DeleteDatabase(t.Context(), c.Database, `"other"`))

	shared, err := e.CreateDatabase(t.Context(), "shared", container.Throughput{Manual: 400})
	status(200, err)
	for _, rid := range []string{s.c.RID, shared.RID} {
		var first, offer *container.Offer
		for _, o := range e.Offers() {
			if o.ResourceRID == rid {
				first, offer = o, o
			}
		}
		for _, units := range []int64{500, 400} {
			old := offer
			offer, err = e.ReplaceOffer(t.Context(), old, container.Throughput{Manual: units}, old.Etag)
			status(200, err)
			_, err = e.ReplaceOffer(t.Context(), old, container.Throughput{Manual: 600}, old.Etag)
			status(412, err)
		}
		if offer.Etag == first.Etag {
			t.Errorf("an offer that was changed and changed back has the etag %s again", offer.Etag)
		}
	}

	c = itemsOf(t, n).c
	status(200, e.DeleteContainer(t.Context(), c, c.Etag))
	_, err = e.ReplaceContainer(t.Context(), c, []byte(definition), "")
	status(404, err)
	status(404, e.DeleteContainer(t.Context(), c, ""))
	newContainer(t, n, definition)
	_, err = e.ReplaceContainer(t.Context(), c, []byte(definition), "")
	status(404, err)
	status(404, e.DeleteContainer(t.Context(), c, ""))
	status(200, e.DeleteDatabase(t.Context(), shared, shared.Etag))
	again, err := e.CreateDatabase(t.Context(), "shared", container.Throughput{Manual: 400})
	status(200, err)
	status(404, e.DeleteDatabase(t.Context(), shared, ""))
	status(200, e.DeleteDatabase(t.Context(), again, again.Etag))
}

// TestAutoscaleIncrement checks that the increment of an autoscale throughput is stored with its container or
// database. The stored increment must follow changes of the offer. It must be removed when the throughput becomes
// manual.
func TestAutoscaleIncrement(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	e := n.Containers
	d, err := e.CreateDatabase(t.Context(), "shared", container.Throughput{Autoscale: 4000, Increment: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = e.CreateContainer(t.Context(), d, []byte(`{"id":"own","partitionKey":{"paths":["/k"]}}`),
		container.Throughput{Autoscale: 5000, Increment: 2}); err != nil {
		t.Fatal(err)
	}
	offers := func() (out []*container.Offer) { return e.Offers() }
	if len(offers()) != 2 {
		t.Fatalf("there are %d offers", len(offers()))
	}
	for i, want := range []container.Throughput{{Autoscale: 4000, Increment: 1}, {Autoscale: 5000, Increment: 2}} {
		o := offers()[i]
		if o.Throughput != want {
			t.Errorf("the offer is %+v, want %+v", o.Throughput, want)
		}
		for _, next := range []container.Throughput{{Autoscale: 4000 + 1000*int64(i), Increment: 7}, {Autoscale: 6000},
			{Manual: 500}} {
			o, err = e.ReplaceOffer(t.Context(), o, next, o.Etag)
			if err != nil || o.Throughput != next {
				t.Fatalf("the offer is %+v, %v; want %+v", o, err, next)
			}
		}
		_, err = e.ReplaceOffer(t.Context(), o, container.Throughput{Autoscale: 4000, Increment: 101}, "")
		if container.StatusOf(err) != 400 {
			t.Errorf("an increment of 101 percent: %v", err)
		}
	}
}
