// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// payer is a visitor that accepts a number of rows and counts the rows that a local replica would charge.
type payer struct {
	ru.Meter
	c       *command.Read
	most    int
	charged []ru.Units
}

func (p *payer) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	p.Meter.Partition(p.c, key, static)
	return command.More, nil
}

func (p *payer) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if p.Meter.Row(clustering, r); p.Rows == int64(p.most) {
		return command.Stop, nil
	}
	return command.More, nil
}

func (p *payer) Charge(u ru.Units) { p.charged = append(p.charged, u) }

// TestChargeOfRead checks that a read from another node costs exactly as much as a read from a local replica. Rows that
// the visitor has accepted are charged, and rows that the other node has sent ahead are not.
func TestChargeOfRead(t *testing.T) {
	withNodePair(t, func(t *testing.T, w *nodePair) {
		items := []item{{Token: 3, Key: []byte("key")}}
		for i := range 3000 {
			items = append(items, item{Key: fmt.Appendf(nil, "%04d", i), Of: true, Row: &row.Row{Live: true,
				Cells: []row.Cell{{Column: 1, Value: make([]byte, i%200), Expiry: row.NoExpiry}}}})
		}
		w.rows = replay(items)
		for _, c := range []*command.Read{
			{Table: 600, Key: []byte("key")}, {Table: 600, Key: []byte("key"), Level: dberr.Serial},
			{Table: 600}, {Table: 600, Continued: true},
		} {
			for _, most := range []int{1, 3, 700, 5000} {
				v := &payer{c: c, most: most}
				if err := w.replica.Read(t.Context(), c, v); err != nil {
					t.Fatal(err)
				}
				if len(v.charged) != 1 || v.charged[0] != v.Price(c) || v.Rows != int64(min(most, 3000)) {
					t.Errorf("%d rows of %+v: charged %v, want %v", v.Rows, c, v.charged, v.Price(c))
				}
			}
		}
	})
}

// debtor is a visitor on the node of a follower.
type debtor struct {
	payer
	lent ru.Units
}

func (d *debtor) Lent(u ru.Units) { d.lent += u }

// TestLentWithRead checks that the visitor on a follower's node receives a leader's loan with the last page.
func TestLentWithRead(t *testing.T) {
	withNodePair(t, func(t *testing.T, w *nodePair) {
		rows := replay([]item{{Token: 3, Key: []byte("key")}})
		for _, want := range []ru.Units{0, 7, 1 << 40} {
			w.rows = func(v command.Visitor) error {
				err := rows(v)
				v.(partition.Borrower).Lent(want)
				return err
			}
			v := &debtor{payer: payer{c: &command.Read{Table: 600, Key: []byte("key")}}}
			if err := w.replica.Read(t.Context(), v.c, v); err != nil || v.lent != want {
				t.Errorf("lent %d, want %d, %v", v.lent, want, err)
			}
		}
	})
}

// TestChargeOfWrite checks that the price of a write is returned with its response.
func TestChargeOfWrite(t *testing.T) {
	withNodePair(t, func(t *testing.T, w *nodePair) {
		w.charge = 5*ru.Unit + 1
		b := newAwaited()
		if err := w.replica.Write(t.Context(), mutation(), b); err != nil {
			t.Fatal(err)
		}
		if b.wait(); b.err != nil || b.charge != w.charge {
			t.Errorf("%v, %d, want %d", b.err, b.charge, w.charge)
		}
		d := newAwaited()
		if err := w.replica.ConditionalWrite(t.Context(), conditional(), d); err != nil {
			t.Fatal(err)
		}
		if d.wait(); d.err != nil || ru.Units(d.d.Charge) != w.charge {
			t.Errorf("%v, %+v, want %d", d.err, d.d, w.charge)
		}
	})
}
