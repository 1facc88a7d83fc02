// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// folder is a visitor that takes what was made of rows.
type folder struct {
	payer
	got []command.Folded
}

func (f *folder) Folded(a *command.Folded) (command.Step, error) {
	own := *a
	own.Result, own.Key = bytes.Clone(a.Result), bytes.Clone(a.Key)
	f.got = append(f.got, own)
	return command.More, nil
}

// TestFoldOfAnotherNode proves that what another node has made of rows comes to whoever offered the fold, with the
// price of the rows that were looked at, however large it is; that rows come where the other node made nothing of them;
// and that an answer which nobody asked for is refused.
func TestFoldOfAnotherNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		made := command.Folded{Result: bytes.Repeat([]byte("r"), 3*PageBytes), Rows: 1000, Bytes: 50_000, More: true,
			Token: -4, Key: []byte("key"), Clustering: []byte("c")}
		w.rows = func(v command.Visitor) error {
			_, err := v.(command.Folder).Folded(&made)
			return err
		}
		c := &command.Read{Table: 600, Fold: &command.Fold{Program: []byte("p"), Rows: 10}}
		v := &folder{payer: payer{c: c}}
		if err := w.replica.Read(t.Context(), c, v); err != nil {
			t.Fatal(err)
		}
		want := (&ru.Meter{Rows: 1000, Bytes: 50_000}).Price(c)
		if len(v.got) != 1 || !bytes.Equal(v.got[0].Result, made.Result) || !v.got[0].More ||
			string(v.got[0].Key) != "key" || len(v.charged) != 1 || v.charged[0] != want {
			t.Errorf("%d answers, charged %v, want %v", len(v.got), v.charged, want)
		}
		if err := w.replica.Read(t.Context(), &command.Read{Table: 600}, &folder{payer: payer{c: c}}); err == nil {
			t.Error("an answer that nobody asked for is taken")
		}
		if err := w.replica.Read(t.Context(), c, &payer{c: c}); err == nil {
			t.Error("an answer is given to who cannot do with it")
		}
		w.rows = replay([]item{{Token: 3, Key: []byte("key")}})
		v = &folder{payer: payer{c: c}}
		if err := w.replica.Read(t.Context(), c, v); err != nil || len(v.got) != 0 || len(v.charged) != 1 {
			t.Errorf("rows instead: %v, %+v", err, v)
		}
	})
}
