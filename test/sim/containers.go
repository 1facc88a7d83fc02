// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// The container holds items of a few logical partitions. It has indexes, including a composite index, a unique key, a
// stored procedure that changes during the run, and two triggers.
const (
	shop       = "shop"
	stock      = "stock"
	stockShape = `{"id":"stock","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},` +
		`"indexingPolicy":{"indexingMode":"consistent","includedPaths":[{"path":"/*"}],"compositeIndexes":[[` +
		`{"path":"/c","order":"ascending"},{"path":"/v","order":"descending"}]]},` +
		`"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":-1,` +
		`"changeFeedPolicy":{"retentionDuration":%d}}`
	mixing, stamping, adding = "mix", "stamp", "also"
	// colors is the number of values that property c of an item can have.
	colors = 3
	// keptMinutes is the retention period, in minutes, in seeds that retain all versions.
	keptMinutes = 600
)

// stampText is the trigger that sets an item's color. alsoText is the trigger that writes a second item.
const (
	stampText = `function stamp() {
	var request = getContext().getRequest(), item = request.getBody();
	item.c = item.v % 3;
	request.setBody(item);
}`
	alsoText = `function also() {
	var c = getContext().getCollection(), item = getContext().getRequest().getBody().also;
	if (!c.upsertDocument(c.getSelfLink(), item, function (err) { if (err) throw err; })) throw new Error("not accepted");
}`
)

// mixText is a procedure that reads items one after another. Depending on its arguments, it writes other items either
// always or only if the first item's value is even. At the end, it reads all items again or throws.
const mixText = `function mix(args) {
	var c = getContext().getCollection(), seen = {}, after = {}, i = 0;
	function must(accepted) { if (!accepted) throw new Error("not accepted"); }
	function read() {
		if (i == args.reads.length) {
			i = 0;
			return args.even && seen[args.reads[0]] % 2 ? end() : write();
		}
		var id = args.reads[i++];
		must(c.readDocument(c.getAltLink() + "/docs/" + id, function (err, item) {
			if (err && err.number != 404) throw err;
			seen[id] = err ? 0 : item.v;
			read();
		}));
	}
	function write() {
		if (i == args.writes.length) return look();
		var item = {id: args.writes[i], k: args.key, v: args.value, u: args.uniques[i], c: args.value % 3};
		i++;
		must(c.upsertDocument(c.getSelfLink(), item, function (err) {
			if (err) throw err;
			write();
		}));
	}
	function look() {
		if (args.fail) throw new Error("on purpose");
		must(c.queryDocuments(c.getSelfLink(), "SELECT c.id, c.v FROM c", function (err, items) {
			if (err) throw err;
			items.forEach(function (item) { after[item.id] = item.v; });
			end();
		}));
	}
	function end() { getContext().getResponse().setBody({seen: seen, after: after}); }
	read();
}`

// mixJSON returns the procedure as a container stores it. Each edition has a different text.
func mixJSON(edition int) []byte {
	text := document.StringValue(fmt.Sprintf("%s // edition %d", mixText, edition)).String()
	return fmt.Appendf(nil, `{"id":%q,"body":%s}`, mixing, text)
}

func triggerJSON(id, when, text string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"triggerType":%q,"triggerOperation":"All","body":%s}`, id, when,
		document.StringValue(text))
}

// firstContainer creates the container that exists from the start, in two partitions.
func (w *simulation) firstContainer(s *meta.State) (*meta.State, error) {
	w.items.kept = w.plan.Seed%2 == 1
	minutes := 0
	if w.items.kept {
		minutes = keptMinutes
	}
	d, bad := container.ParseDefinition(fmt.Appendf(nil, stockShape, minutes))
	if bad != nil {
		return nil, bad
	}
	replication := []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}
	out := *s
	out.Schema = catalog.WithSystem(out.Schema)
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Name: shop, Database: &schema.Database{ID: shop},
			Properties: []schema.Property{{Name: "replication", IsMap: true, Map: replication}}},
		&schema.CreateContainer{Keyspace: shop, Name: stock, ID: schema.UUID{1}, Unique: len(d.UniqueKeys),
			Indexed: true, Properties: []schema.Property{{Name: "gc_grace_seconds", Value: "1"}},
			Container: schema.Container{ID: stock, Paths: d.Paths, Scheme: d.Hash, Definition: d.JSON, Keep: d.Keep,
				Feed: true}},
		&schema.ReplaceContainer{Keyspace: shop, Name: stock,
			Change: func(c *schema.Container, in *schema.Replacing) error {
				for _, s := range []struct {
					kind container.ScriptKind
					id   string
					json []byte
				}{
					{container.StoredProcedure, mixing, mixJSON(0)},
					{container.Trigger, stamping, triggerJSON(stamping, "Pre", stampText)},
					{container.Trigger, adding, triggerJSON(adding, "Post", alsoText)},
				} {
					c.Scripts = append(c.Scripts, schema.Script{Kind: uint8(s.kind), ID: s.id, Number: in.Number(),
						Definition: s.json, Revision: in.Revision})
				}
				return nil
			}},
	} {
		var err error
		if out.Schema, _, err = schema.Apply(out.Schema, c); err != nil {
			return nil, err
		}
	}
	t := out.Schema.Table(shop, stock)
	m, err := out.Topology.CutTable(t.ID, w.pieces(1))
	out.Topology = m
	w.items.table = t
	return &out, err
}

// serveItems creates the components that serve items on a node, as package node does.
func (n *node) serveItems() {
	n.definitions = &container.Definitions{}
	n.stock = container.New(container.Options{Catalog: n.cat, Coordinator: n.coord, Store: n.changer,
		Definitions: n.definitions, Sched: n.Scheduler(), Clock: n.peers, Builds: n.builder})
	n.scripts = script.NewService(n.stock, script.New(script.Bounds{}))
}

// itemPrograms implements partition.Programs for the programs of item clients and row clients.
type itemPrograms struct{ n *node }

// Program implements partition.Programs.
func (p itemPrograms) Program(ctx context.Context, c *command.Conditional) (partition.Program, error) {
	if c.Program[0] < container.FirstProgram {
		return transactions(p).Program(ctx, c)
	}
	if p.n.stock == nil {
		return nil, &dberr.Overloaded{}
	}
	program, err := p.n.stock.Program(ctx, c)
	if err != nil {
		return nil, err
	}
	return &slowProgram{program, p.n}, nil
}

// slowProgram delays a program before and after it runs on a slow node.
type slowProgram struct {
	partition.Program
	n *node
}

// Run implements partition.Program.
func (p *slowProgram) Run(ctx context.Context, t *partition.Txn) ([]byte, error) {
	wait := func() error {
		if w := p.n.w; w.OneIn(4) {
			return p.n.Scheduler().Sleep(ctx, w.Between(0, 60*time.Millisecond))
		}
		return nil
	}
	if err := wait(); err != nil {
		return nil, err
	}
	// Scripts measure time with the clock of the test. That clock does not advance during a step, so the deadline uses
	// another clock.
	result, err := p.Program.Run(context.WithoutCancel(ctx), t)
	if slow := wait(); slow != nil {
		return nil, slow
	}
	return result, err
}

// startTuner replaces the procedure from time to time. Clients and leaders may therefore know different revisions of
// the container.
func (n *node) startTuner() {
	w := n.w
	n.Spawn(func(t *simenv.Task) {
		for t.Sleep(w.Between(2*time.Second, 9*time.Second)) && !w.finished && !w.Calm {
			c := n.stocked()
			if c == nil {
				continue
			}
			s, err := c.Script(container.StoredProcedure, mixing)
			if err != nil {
				w.Fail("node %d: %v", n.ID, err)
				return
			}
			w.items.editions++
			_, err = n.stock.ReplaceScript(context.Background(), c, s, mixJSON(w.items.editions), "")
			w.Note("node %d: edition %d of the procedure: %v", n.ID, w.items.editions, err)
		}
	})
}

// stocked returns the container definition that the node knows, or nil if the node does not know the container yet.
func (n *node) stocked() *container.Container {
	d, err := n.stock.Database(shop)
	if err != nil {
		return nil
	}
	c, err := n.stock.Container(d, stock)
	if err != nil {
		return nil
	}
	return c
}

// stockKey returns the partition key of a logical partition.
func stockKey(key string) epk.Key { return epk.Key{epk.Text(key)} }

// stockBytes returns the partition key in the encoding of the rows.
func stockBytes(key string) []byte { return epk.AppendKey(nil, stockKey(key)) }
