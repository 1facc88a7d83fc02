// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/container"
)

// newProcedure creates a stored procedure in a container of database d.
func newProcedure(t *testing.T, n *Node, table, id, body string) {
	t.Helper()
	c, err := n.Containers.ContainerByName("d", table)
	if err != nil {
		t.Fatal(err)
	}
	quoted := func(s string) string { return string(document.AppendString(nil, s)) }
	text := `{"id":` + quoted(id) + `,"body":` + quoted(body) + `}`
	if _, err := n.Containers.CreateScript(t.Context(), c, container.StoredProcedure, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// driver opens a session of the Go driver with a node. The session logs in as the given role.
func driver(t *testing.T, n *Node, role, password string) *gocql.Session {
	t.Helper()
	o := gocql.NewCluster(n.CQLAddr().String())
	o.Authenticator = gocql.PasswordAuthenticator{Username: role, Password: password}
	s, err := o.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// echo is a procedure that returns its arguments and logs them.
const echo = `function () { var a = Array.prototype.slice.call(arguments); console.log(JSON.stringify(a)); ` +
	`getContext().getResponse().setBody(a); }`

// TestCall checks that the Go driver runs stored procedures with CALL. The test covers names, all forms of arguments,
// the result, the log, and the charge. It also runs the transfer procedure in docs/procedures.md. A transfer that
// throws an error must change nothing.
func TestCall(t *testing.T) {
	n := startNode(t, Options{Auth: options.Auth{Users: map[string]string{"boss": hash(t, "b")}}})
	newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	newContainer(t, n, `{"id":"deep","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`)
	newProcedure(t, n, "c", "transfer", examples(t)["transfer"])
	newProcedure(t, n, "c", "bothOf", echo)
	newProcedure(t, n, "deep", "bothOf", echo)
	newProcedure(t, n, "deep", "Echo it", echo)
	newProcedure(t, n, "deep", "twice", echo)
	newProcedure(t, n, "deep", "Twice", echo)
	newProcedure(t, n, "deep", "TWICE", echo)
	items := itemsOf(t, n)
	items.want(201, key("p"), create(`{"id":"a","k":"p","amount":100}`))
	items.want(201, key("p"), create(`{"id":"b","k":"p","amount":1}`))
	s := driver(t, n, "boss", "b")
	call := func(text string, args ...any) (result string, err error) {
		err = s.Query(text, args...).Scan(&result)
		return result, err
	}

	for _, test := range [][2]string{
		{`CALL d.c.bothOf('p', 1, 2.5, 'x', true, null, [1, 'a'], {'m': {'n': 1}}, {x: -1}, (1, 2), (int) 7, {})`,
			`[1,2.5,"x",true,null,[1,"a"],{"m":{"n":1}},{"x":-1},[1,2],7,{}]`},
		{`CALL d.c.BOTHOF('p', fromJson('{"a" : [1]}'), 0x0102, 123e4567-e89b-12d3-a456-426655440000)`,
			`[{"a":[1]},"0x0102","123e4567-e89b-12d3-a456-426655440000"]`},
		{`CALL d.deep.bothOf('x', 5)`, `[]`},
		{`CALL d."Echo it"('x', 5, 'y')`, `["y"]`},
		{`CALL d.deep.twice('x', 5)`, `[]`},
		{`CALL d.transfer('p', 'a', 'b', 30)`, `{"left":70}`},
	} {
		if got, err := call(test[0]); err != nil || got != test[1] {
			t.Errorf("%s: %s %v", test[0], got, err)
		}
	}
	for _, test := range [][2]string{
		{`CALL d.bothOf('p')`, `d.bothof is ambiguous: use d.c."bothOf" or d.deep."bothOf"`},
		{`CALL d.deep."twicE"('p', 1)`, `has no procedure "twicE"`},
		{`CALL d.none('p')`, `no container of keyspace d has a procedure none`},
		{`CALL none.transfer('p')`, `keyspace none does not exist`},
		{`CALL transfer('p')`, `No keyspace has been specified`},
		{`CALL d.none.transfer('p')`, `container d.none does not exist`},
		{`CALL system.local.transfer('p')`, `only containers have procedures`},
		{`CALL d.c.none('p')`, `container d.c has no procedure none`},
		{`CALL d.c.transfer()`, `The first arguments of CALL must be the partition key`},
		{`CALL d.deep.bothOf('x')`, `has the paths [/a /b], but there are only 1 arguments`},
		{`CALL d.c.bothOf('p', now())`, `cannot be an argument of a procedure`},
		{`CALL d.c.bothOf('p', fromJson('1, 2'))`, `Argument arg1 is not valid JSON`},
		{`CALL d.c.bothOf('` + strings.Repeat("p", 3000) + `')`, `The partition key has 3000 bytes`},
		{`EXPLAIN CALL d.c.bothOf('p')`, `EXPLAIN is not supported for CALL: the cost depends on the procedure bothof`},
		{`CALL d.c.transfer('p', 'a', 'b', 71)`, `execution of 'd.c.transfer[text, text, varint]' failed: Encountered ` +
			`exception while executing Javascript. Exception = Error: a has only 70`},
	} {
		if got, err := call(test[0]); err == nil || !strings.Contains(err.Error(), test[1]) {
			t.Errorf("%s: %s %v", test[0], got, err)
		}
	}

	it := s.Query(`CALL d.c.transfer('p', 'b', 'a', 31)`).CustomPayload(map[string][]byte{"RequestCharge": {1}}).Iter()
	charge := math.Float64frombits(binary.BigEndian.Uint64(append(it.GetCustomPayload()["RequestCharge"],
		make([]byte, 8)...)))
	if err := it.Close(); err != nil || charge < 10 {
		t.Errorf("two reads and two writes cost %v RU, %v", charge, err)
	}
	_, err := call(`CALL d.c.transfer('p', 'b', 'a', (int) 1)`)
	if e, ok := errors.AsType[*gocql.RequestErrFunctionFailure](err); !ok || e.Code() != 0x1400 || e.Keyspace != "d" ||
		e.Function != "c.transfer" || !slices.Equal(e.ArgTypes, []string{"text", "text", "int"}) {
		t.Errorf("a script that throws: %v", err)
	}
	if a, b := items.body(key("p"), "a"), items.body(key("p"), "b"); a != `{"id":"a","k":"p","amount":101}` ||
		b != `{"id":"b","k":"p","amount":0}` {
		t.Errorf("the items are %s and %s", a, b)
	}

	it = s.Query(`CALL d.c.bothOf('p', 'it''s') WITH LOG`).Iter()
	var result, log string
	it.Scan(&result, &log)
	if err := it.Close(); err != nil || result != `["it's"]` || log != `["it's"]`+"\n" {
		t.Errorf("with log: %s %s %v", result, log, err)
	}
	for i := range it.Columns() {
		if want := []string{"result", "log"}[i]; it.Columns()[i].Name != want {
			t.Errorf("column %d is %s", i, it.Columns()[i].Name)
		}
	}
}

// TestCallPrepared checks the metadata that clients receive for a prepared CALL. The metadata includes the markers,
// their types, and the markers that determine the routing. After the procedure is replaced, the client must prepare
// the statement again, and the statement then runs the new procedure.
func TestCallPrepared(t *testing.T) {
	n := startNode(t, Options{})
	newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`)
	newProcedure(t, n, "c", "p", `function (x) { getContext().getResponse().setBody(x + 1); }`)
	c := newClient(t, n)
	for text, want := range map[string]string{
		"CALL d.p(?, (int) ?, :x)":  "[/a text /b int x text] [0 1]",
		"CALL d.p(?, 1, ?)":         "[/a text arg1 text] []",
		"CALL d.p(?, ?, [(int) ?])": "[/a text /b text arg1 int] [0 1]",
	} {
		c.prepare(text)
		p := c.call.Result.Prepared
		var markers []string
		for _, m := range p.Bind {
			markers = append(markers, m.Name, m.Type.String())
		}
		if got := fmt.Sprint(markers, p.PKIndexes); got != want || p.Result.Columns[0].Name != "result" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	id := c.prepare("CALL d.p(?, 1, (int) ?)")
	one := []byte{0, 0, 0, 1}
	if r := c.execute(id, []byte("k"), one); r.Err != nil || string(r.Cells[4:]) != "2" {
		t.Errorf("%q %v", r.Cells, r.Err)
	}
	items := itemsOf(t, n)
	old, err := items.c.Script(container.StoredProcedure, "p")
	if err == nil {
		_, err = n.Containers.ReplaceScript(t.Context(), items.c, old,
			[]byte(`{"id":"p","body":"function (x) { getContext().getResponse().setBody(x + 2); }"}`), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	c.call.Result.Reset()
	if r := c.wait(c.s.Execute(t.Context(), &c.call)); r.Err == nil || !strings.Contains(r.Err.Error(), "not found") {
		t.Errorf("no error that requires the client to prepare again: %v", r.Err)
	}
	id = c.prepare("CALL d.p(?, 1, (int) ?)")
	if r := c.execute(id, []byte("k"), one); r.Err != nil || string(r.Cells[4:]) != "3" {
		t.Errorf("%q %v", r.Cells, r.Err)
	}
}
