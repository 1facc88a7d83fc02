// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// pushdownVisitor is a visitor that receives aggregates of rows.
type pushdownVisitor struct {
	payer
	got []command.PushdownResult
}

func (f *pushdownVisitor) PushedDown(a *command.PushdownResult) (command.Step, error) {
	own := *a
	own.Result, own.Key = bytes.Clone(a.Result), bytes.Clone(a.Key)
	f.got = append(f.got, own)
	return command.More, nil
}

// TestPushdownOnAnotherNode checks that the partial result of another node reaches the caller that requested the
// aggregation, with the price of all rows read. If the other node could not aggregate the rows, the rows must arrive. A
// result that was not requested must be rejected.
func TestPushdownOnAnotherNode(t *testing.T) {
	withNodePair(t, func(t *testing.T, w *nodePair) {
		made := command.PushdownResult{Result: bytes.Repeat([]byte("r"), 3*PageBytes), Rows: 1000, Bytes: 50_000,
			More:  true,
			Token: -4, Key: []byte("key"), Clustering: []byte("c")}
		w.rows = func(v command.Visitor) error {
			_, err := v.(command.PushdownVisitor).PushedDown(&made)
			return err
		}
		c := &command.Read{Table: 600, Pushdown: &command.Pushdown{Program: []byte("p"), Rows: 10}}
		v := &pushdownVisitor{payer: payer{c: c}}
		if err := w.replica.Read(t.Context(), c, v); err != nil {
			t.Fatal(err)
		}
		want := (&ru.Meter{Rows: 1000, Bytes: 50_000}).Price(c)
		if len(v.got) != 1 || !bytes.Equal(v.got[0].Result, made.Result) || !v.got[0].More ||
			string(v.got[0].Key) != "key" || len(v.charged) != 1 || v.charged[0] != want {
			t.Errorf("%d answers, charged %v, want %v", len(v.got), v.charged, want)
		}
		if err := w.replica.Read(t.Context(), &command.Read{Table: 600},
			&pushdownVisitor{payer: payer{c: c}}); err == nil {
			t.Error("a response without a request was accepted")
		}
		if err := w.replica.Read(t.Context(), c, &payer{c: c}); err == nil {
			t.Error("a result was sent to a caller that cannot use it")
		}
		w.rows = replay([]item{{Token: 3, Key: []byte("key")}})
		v = &pushdownVisitor{payer: payer{c: c}}
		if err := w.replica.Read(t.Context(), c, v); err != nil || len(v.got) != 0 || len(v.charged) != 1 {
			t.Errorf("rows instead: %v, %+v", err, v)
		}
	})
}
