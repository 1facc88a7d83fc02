// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
	graph "github.com/ilion-db/ilion/test/history"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/restclient"
)

// These constants define the accounts of TestItemsOverKills, their logical partitions, and their initial balance.
const (
	itemOwners   = 6
	itemAccounts = 4
	itemOpened   = 1000
	itemClients  = 6
	restPort     = 18081
	restTime     = 20 * time.Second // the request timeout, which is longer than any response takes
	stockPath    = "dbs/shop/colls/stock"
	stockTable   = "shop.stock"
)

// moveText moves an amount between two accounts. It also reads other accounts, and writes a receipt with the previous
// versions. On demand, it throws an exception before it writes the receipt.
const moveText = `function move(args) {
	var c = getContext().getCollection(), over = {}, items = {}, i = 0;
	function must(accepted) { if (!accepted) throw new Error("not accepted"); }
	function read() {
		if (i == args.reads.length) return items[args.from].balance < args.amount ? end(false) : write(args.from, -1);
		var id = args.reads[i++];
		must(c.readDocument(c.getAltLink() + "/docs/" + id, function (err, item) {
			if (err) throw err;
			over[id] = item.version;
			items[id] = item;
			read();
		}));
	}
	function write(id, sign) {
		var item = items[id];
		item.balance += sign * args.amount;
		item.version = args.receipt;
		must(c.replaceDocument(item._self, item, {etag: item._etag}, function (err) {
			if (err) throw err;
			id == args.from ? write(args.to, 1) : leave();
		}));
	}
	function leave() {
		if (args.fail) throw new Error("on purpose");
		var receipt = {id: args.receipt, k: args.key, n: args.receipt, from: args.from, to: args.to,
			amount: args.amount, over: over};
		must(c.createDocument(c.getSelfLink(), receipt, function (err) {
			if (err) throw err;
			end(true);
		}));
	}
	function end(moved) { getContext().getResponse().setBody({moved: moved, over: over}); }
	read();
}`

// account is an item with a balance. receipt is an item that describes a move. Both have n, the unique key.
type account struct {
	ID      string `json:"id"`
	Key     string `json:"k"`
	N       string `json:"n"`
	Balance int    `json:"balance"`
	Version string `json:"version"`
}

type receipt struct {
	ID     string            `json:"id"`
	Key    string            `json:"k"`
	N      string            `json:"n"`
	From   string            `json:"from"`
	To     string            `json:"to"`
	Amount int               `json:"amount"`
	Over   map[string]string `json:"over"`
}

// These are the outcomes of a move.
const (
	moveUnknown = iota
	moveDone
	moveRefused
)

// itemMove is a request that moves an amount or reads all accounts.
type itemMove struct {
	receipt
	ended      int
	begin, end int64
	// reads holds the versions that the request read.
	reads map[string]string
}

// itemLoad consists of clients of items, and their requests and results.
type itemLoad struct {
	f       *fleet
	began   time.Time
	stop    chan struct{}
	clients sync.WaitGroup
	ids     []string // node IDs

	mu                               sync.Mutex
	moves                            []*itemMove
	acked, unknown, thrown, repelled atomic.Int64
}

func (m *member) rest() string { return fmt.Sprintf("%s:%d", m.ip, restPort) }

func (m *member) restClient() *restclient.Client { return restclient.New(m.rest(), restTime) }

func accountID(i int) string { return fmt.Sprint("a", i) }

func ownerKey(i int) string { return fmt.Sprint("owner", i) }

// startItems creates the container and its accounts, and starts the clients.
func startItems(f *fleet) *itemLoad {
	t := f.t
	l := &itemLoad{f: f, began: time.Now(), stop: make(chan struct{})}
	c := f.nodes[0].restClient()
	defer c.Close()
	made := func(path, key string, body any) {
		t.Helper()
		q := &restclient.Request{Method: http.MethodPost, Path: path, Key: key, Body: body}
		f.until("make "+path, eventually.Limit, func() string {
			status, _, err := c.Ask(t.Context(), q, nil)
			if status == 201 || status == 409 { // a failed attempt has created it
				return ""
			}
			return fmt.Sprintf("status %d, %v", status, err)
		})
	}
	made("dbs", "", map[string]string{"id": "shop"})
	made("dbs/shop/colls", "", map[string]any{"id": "stock",
		"partitionKey":    map[string]any{"paths": []string{"/k"}, "kind": "Hash", "version": 2},
		"uniqueKeyPolicy": map[string]any{"uniqueKeys": []any{map[string]any{"paths": []string{"/n"}}}}})
	made(stockPath+"/sprocs", "", map[string]string{"id": "move", "body": moveText})
	for o := range itemOwners {
		for a := range itemAccounts {
			made(stockPath+"/docs", ownerKey(o),
				account{accountID(a), ownerKey(o), accountID(a), itemOpened, "first"})
		}
	}
	f.settle()
	for _, m := range f.nodes {
		l.ids = append(l.ids, m.id())
	}
	for i := range itemClients {
		l.clients.Go(func() { l.run(i) })
	}
	return l
}

// run runs a client. run sends requests to one node, and changes to the next node when it gets no response.
func (l *itemLoad) run(number int) {
	dice := rand.New(rand.NewPCG(uint64(number), 11))
	c := l.f.nodes[number%len(l.f.nodes)].restClient()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			c.Close()
			return
		default:
		}
		m := &itemMove{receipt: receipt{ID: fmt.Sprintf("r%d-%d", number, n), Key: ownerKey(dice.IntN(itemOwners)),
			Amount: 1 + dice.IntN(300)}, reads: map[string]string{}}
		m.N = m.ID
		two := dice.Perm(itemAccounts)
		m.From, m.To = accountID(two[0]), accountID(two[1])
		m.begin = int64(time.Since(l.began))
		var answered bool
		switch d := dice.IntN(10); {
		case d < 5:
			answered = l.call(c, m, accountID(two[2]), dice.IntN(6) == 0)
		case d < 7:
			answered = l.batch(c, m)
		case d < 9:
			answered = l.audit(c, m)
		default:
			answered = l.clash(c, m)
		}
		m.end = int64(time.Since(l.began))
		if m.ended == moveUnknown {
			m.end = graph.Never
		}
		l.mu.Lock()
		l.moves = append(l.moves, m)
		l.mu.Unlock()
		if answered {
			l.acked.Add(1)
			continue
		}
		l.unknown.Add(1)
		c.Close()
		c = l.f.nodes[(number+n)%len(l.f.nodes)].restClient()
	}
}

// wrong fails the test for an impossible response.
func (l *itemLoad) wrong(format string, args ...any) { l.f.t.Errorf(format, args...) }

// isBatch holds the headers of a batch.
var isBatch = map[string]string{"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true"}

// post sends a request about the container.
func (l *itemLoad) post(c *restclient.Client, what, key string, headers map[string]string, body, out any) (int,
	http.Header, error) {
	return c.Ask(l.f.t.Context(), &restclient.Request{Method: http.MethodPost, Path: stockPath + "/" + what, Key: key,
		Headers: headers, Body: body}, out)
}

// call moves an amount with the procedure. answered reports whether the response states the outcome.
func (l *itemLoad) call(c *restclient.Client, m *itemMove, other string, fail bool) (answered bool) {
	var out struct {
		Moved bool
		Over  map[string]string
	}
	var raw []byte
	status, _, err := l.post(c, "sprocs/move", m.Key, nil, []any{map[string]any{"key": m.Key, "from": m.From,
		"to": m.To, "reads": []string{m.From, m.To, other}, "amount": m.Amount, "receipt": m.ID, "fail": fail}}, &raw)
	if err == nil && status == 200 {
		err = json.Unmarshal(raw, &out)
	}
	switch {
	case err != nil || status == 408 || status == 429 || status >= 500:
		return false
	case status == 400: // the procedure threw on purpose, or the machine was too busy
		l.thrown.Add(1)
		if m.ended = moveRefused; !fail && !bytes.Contains(raw, []byte("not accepted")) {
			l.wrong("a procedure was rejected: %s", raw)
		}
	case status == 200 && !(fail && out.Moved):
		m.reads, m.ended = out.Over, moveDone
		if !out.Moved {
			m.Amount = 0
		}
	default:
		l.wrong("a procedure ended with %d, %+v", status, out)
	}
	return true
}

// read reads an account and its etag.
func (l *itemLoad) read(c *restclient.Client, key, id string) (a account, etag string, ok bool) {
	q := &restclient.Request{Method: http.MethodGet, Path: stockPath + "/docs/" + id, Key: key}
	status, h, err := c.Ask(l.f.t.Context(), q, &a)
	if err == nil && status != 200 && status != 408 && status != 429 && status < 500 {
		l.wrong("the account %s of %s is read with %d", id, key, status)
	}
	return a, h.Get("etag"), err == nil && status == 200
}

// batch moves an amount with a batch that is conditional on the etags read before.
func (l *itemLoad) batch(c *restclient.Client, m *itemMove) (answered bool) {
	from, fromEtag, ok := l.read(c, m.Key, m.From)
	to, toEtag, fine := l.read(c, m.Key, m.To)
	if m.ended = moveRefused; !ok || !fine {
		return false
	}
	m.begin = int64(time.Since(l.began))
	m.Over = map[string]string{m.From: from.Version, m.To: to.Version}
	from.Balance, to.Balance, from.Version, to.Version = from.Balance-m.Amount, to.Balance+m.Amount, m.ID, m.ID
	var out []struct{ StatusCode int }
	status, _, err := l.post(c, "docs", m.Key, isBatch, []map[string]any{
		{"operationType": "Replace", "id": m.From, "resourceBody": from, "ifMatch": fromEtag},
		{"operationType": "Replace", "id": m.To, "resourceBody": to, "ifMatch": toEtag},
		{"operationType": "Create", "resourceBody": m.receipt}}, &out)
	if m.ended = moveUnknown; err != nil || status == 408 || status == 429 || status >= 500 {
		return false
	}
	statuses := make([]int, len(out))
	for i := range out {
		statuses[i] = out[i].StatusCode
	}
	switch {
	case slices.Equal(statuses, []int{200, 200, 201}):
		m.reads, m.ended = m.Over, moveDone
	case slices.Equal(statuses, []int{412, 424, 424}), slices.Equal(statuses, []int{424, 412, 424}):
		l.repelled.Add(1)
		m.ended = moveRefused
	default:
		l.wrong("a batch ended with %d, %v", status, statuses)
	}
	return true
}

// audit reads all accounts in one request and checks that none is missing.
func (l *itemLoad) audit(c *restclient.Client, m *itemMove) (answered bool) {
	var ops []map[string]string
	for a := range itemAccounts {
		ops = append(ops, map[string]string{"operationType": "Read", "id": accountID(a)})
	}
	var out []struct {
		StatusCode   int
		ResourceBody account
	}
	m.Amount, m.ended = 0, moveRefused
	status, _, err := l.post(c, "docs", m.Key, isBatch, ops, &out)
	if err != nil || status == 408 || status == 429 || status >= 500 {
		return false
	}
	sum := 0
	for _, r := range out {
		sum += r.ResourceBody.Balance
		m.reads[r.ResourceBody.ID] = r.ResourceBody.Version
	}
	if m.ended = moveDone; sum != itemAccounts*itemOpened || len(m.reads) != itemAccounts {
		l.wrong("%s has %d in all, not %d: %d %+v", m.Key, sum, itemAccounts*itemOpened, status, out)
	}
	return true
}

// clash creates an item with the unique key of an account, which every leader must reject.
func (l *itemLoad) clash(c *restclient.Client, m *itemMove) (answered bool) {
	m.ended = moveRefused
	status, _, err := l.post(c, "docs", m.Key, nil, receipt{ID: m.ID, Key: m.Key, N: m.From}, nil)
	if err != nil || status == 408 || status == 429 || status >= 500 {
		return false
	}
	if status != 409 {
		l.wrong("an item with a duplicate unique key returned status %d", status)
	}
	return true
}

// more waits for n more responses.
func (l *itemLoad) more(n int64) {
	l.f.t.Helper()
	want := l.acked.Load() + n
	if _, missed := eventually.Try(2*time.Minute, func() string {
		if got := l.acked.Load(); got < want {
			return fmt.Sprintf("%d responses, want %d", got, want)
		}
		return ""
	}); missed != "" {
		l.f.t.Fatalf("after two minutes there are %s", missed)
	}
}

// finish stops the clients and compares the stored items with the responses.
func (l *itemLoad) finish() {
	t := l.f.t
	t.Helper()
	close(l.stop)
	l.clients.Wait()
	for o := range itemOwners {
		l.check(ownerKey(o))
	}
	done := 0
	for _, m := range l.moves {
		if m.ended == moveDone && m.Amount > 0 {
			done++
		}
	}
	t.Logf("%d requests completed, including %d moves; %d procedures threw, %d batches were rejected; %d requests without response",
		l.acked.Load(), done, l.thrown.Load(), l.repelled.Load(), l.unknown.Load())
}

// all reads all items of a logical partition.
func (l *itemLoad) all(key string) (accounts map[string]account, receipts map[string]receipt) {
	t := l.f.t
	c := l.f.nodes[0].restClient()
	defer c.Close()
	accounts, receipts = map[string]account{}, map[string]receipt{}
	headers := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-isquery": "True"}
	for {
		var page struct {
			Documents []struct {
				receipt
				Balance *int   `json:"balance"`
				Version string `json:"version"`
			}
		}
		status, h, err := l.post(c, "docs", key, headers,
			map[string]any{"query": "SELECT * FROM c", "parameters": []any{}}, &page)
		if status != 200 || err != nil {
			t.Fatalf("the items of %s: %d %v", key, status, err)
		}
		for _, d := range page.Documents {
			if d.Balance != nil {
				accounts[d.ID] = account{ID: d.ID, Balance: *d.Balance, Version: d.Version}
			} else if _, twice := receipts[d.ID]; twice {
				t.Errorf("%s has the receipt %s twice", key, d.ID)
			} else {
				receipts[d.ID] = d.receipt
			}
		}
		if headers["x-ms-continuation"] = h.Get("x-ms-continuation"); headers["x-ms-continuation"] == "" {
			return accounts, receipts
		}
	}
}

// check checks a logical partition. Receipts must match the responses to clients, and balances must match the
// receipts. All reads must be serializable in the order of time.
func (l *itemLoad) check(key string) {
	t := l.f.t
	accounts, receipts := l.all(key)
	want := map[string]int{}
	for a := range itemAccounts {
		want[accountID(a)] = itemOpened
	}
	for _, r := range receipts {
		want[r.From] -= r.Amount
		want[r.To] += r.Amount
	}
	for id, balance := range want {
		if accounts[id].Balance != balance {
			t.Errorf("%s: account %s has %d, its receipts add up to %d", key, id, accounts[id].Balance, balance)
		}
	}
	txns := []graph.Txn{{Name: "the beginning", End: 0}}
	for a := range itemAccounts {
		txns[0].Writes = append(txns[0].Writes, graph.Write{Version: graph.Version{Item: accountID(a), Value: "first"},
			Known: true})
	}
	for _, m := range l.moves {
		if m.Key != key {
			continue
		}
		r, there := receipts[m.ID]
		switch moved := m.ended == moveDone && m.Amount > 0; {
		case moved && !there:
			t.Errorf("%s: acknowledged move %s is missing", key, m.ID)
		case there && !moved && m.ended != moveUnknown:
			t.Errorf("%s: rejected move %s exists", key, m.ID)
		}
		txn := graph.Txn{Name: m.ID, Begin: m.begin, End: m.end}
		if there {
			m.reads = r.Over
			for _, id := range []string{r.From, r.To} {
				v := graph.Version{Item: id, Value: m.ID}
				txn.Writes = append(txn.Writes, graph.Write{Version: v, Over: r.Over[id], Known: true})
			}
		}
		for _, id := range slices.Sorted(maps.Keys(m.reads)) {
			txn.Reads = append(txn.Reads, graph.Version{Item: id, Value: m.reads[id]})
		}
		txns = append(txns, txn)
	}
	last := graph.Txn{Name: "the end", Begin: graph.Never - 1, End: graph.Never}
	for id, a := range accounts {
		last.Reads = append(last.Reads, graph.Version{Item: id, Value: a.Version})
	}
	if v := graph.Check(append(txns, last)); v != nil {
		t.Errorf("%s: %v", key, v)
	}
}

// changePartition requests a change of a partition of the container.
func (l *itemLoad) changePartition(dice *rand.Rand, by *member) (what string) {
	return changeTablePartition(dice, by, stockTable, l.ids)
}

// changeTablePartition requests a change of a table's partition through a node. ids lists the node IDs of the cluster.
// A rejected request is skipped. For example, another change may be in progress, or the partition cannot be split.
func changeTablePartition(dice *rand.Rand, by *member, table string, ids []string) (what string) {
	ps := by.partitionsOf(table)
	p := ps[dice.IntN(len(ps))]
	switch d := dice.IntN(3); {
	case d == 0 || len(ps) == 1:
		return fmt.Sprintf("split of %d: %v", p.ID, by.trySplit(table, p.ID))
	case d == 1:
		i := dice.IntN(len(ps) - 1)
		err := process.TryOrder(by.dir, fmt.Sprintf("/partition/merge?table=%s&partition=%d&with=%d&now=true",
			url.QueryEscape(table), ps[i].ID, ps[i+1].ID))
		return fmt.Sprintf("merge of %d and %d: %v", ps[i].ID, ps[i+1].ID, err)
	}
	on := map[string]bool{}
	for _, r := range p.Replicas {
		on[r.Node] = true
	}
	from, to := p.Replicas[dice.IntN(len(p.Replicas))].Node, ""
	for _, id := range ids {
		if !on[id] {
			to = id
		}
	}
	if to == "" {
		return "nothing to move"
	}
	err := process.TryOrder(by.dir, fmt.Sprintf("/partition/move?table=%s&partition=%d&from=%s&to=%s",
		url.QueryEscape(table), p.ID, from, to))
	return fmt.Sprintf("move of %d: %v", p.ID, err)
}

// TestItemsOverKills checks items, batches, and stored procedures of competing HTTP clients while nodes are killed and
// partitions of the container split, merge, and move. An acknowledged change must exist once, and a rejected change
// must not exist. No change may exist in part. Unique keys must hold, and sums must always be correct. All reads must
// be serializable in the order of time.
func TestItemsOverKills(t *testing.T) {
	rounds, pause := 1, int64(100)
	if *long {
		rounds, pause = 2**faults, 400
	}
	f := newFleet(t, "rest:\n  primary_key: "+restclient.Key+"\n")
	for range 5 {
		m := f.add()
		m.args = append(m.args, "--rest", m.rest())
		m.start()
	}
	f.settle()
	l := startItems(f)
	dice := rand.New(rand.NewPCG(rand.Uint64(), 5))
	for range rounds {
		l.more(pause)
		victim := f.nodes[dice.IntN(len(f.nodes))]
		by := f.without(victim)[0]
		t.Logf("%s; then %s is killed", l.changePartition(dice, by), victim.name())
		l.more(dice.Int64N(pause))
		victim.kill()
		t.Log(l.changePartition(dice, by))
		l.more(pause)
		victim.start()
		f.acquaint()
	}
	f.settle()
	l.more(pause)
	l.finish()
}
