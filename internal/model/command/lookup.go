// SPDX-License-Identifier: Apache-2.0

package command

import "github.com/ilion-db/ilion/internal/model/codec"

// appendValues appends the alternatives of a lookup.
func (l *IndexLookup) appendValues(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(len(l.Any)))
	for _, all := range l.Any {
		w.Uint(uint64(len(all)))
		for _, v := range all {
			w.Bytes(v)
		}
	}
	w.Null(l.End)
	w.Null(l.First)
	w.Null(l.After)
	return w
}

// values reads the output of appendValues.
func (r *reader) values(f codec.Field, l *IndexLookup) {
	if l == nil {
		r.Fail()
		return
	}
	v := codec.NewReader(f.Value, ErrMalformed)
	for range v.Count(1) {
		var all [][]byte
		for range v.Count(1) {
			all = append(all, v.Bytes())
		}
		l.Any = append(l.Any, all)
	}
	l.End, l.First, l.After = v.Null(), v.Null(), v.Null()
	if v.End() != nil {
		r.Fail()
	}
}

// appendTerms appends the conditions of a lookup on several indexes.
func (l *IndexLookup) appendTerms(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(len(l.All)))
	for i := range l.All {
		t := &l.All[i]
		w.Uint(uint64(t.Index))
		w.Bytes(t.Value)
		w.Null(t.End)
		w.Flag(t.Whole)
	}
	return w
}

// terms reads the output of appendTerms.
func (r *reader) terms(f codec.Field, l *IndexLookup) {
	if l == nil {
		r.Fail()
		return
	}
	v := codec.NewReader(f.Value, ErrMalformed)
	for range v.Count(4) {
		t := IndexTerm{Index: v.Uint32()}
		t.Value, t.End, t.Whole = v.Bytes(), v.Null(), v.Flag()
		l.All = append(l.All, t)
	}
	if v.End() != nil {
		r.Fail()
	}
}

// appendNear appends the parameters of a vector search.
func (l *IndexLookup) appendNear(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(l.Generation))
	w.Bytes(l.Vector)
	return w
}

// near reads the output of appendNear.
func (r *reader) near(f codec.Field, l *IndexLookup) {
	if l == nil {
		r.Fail()
		return
	}
	v := codec.NewReader(f.Value, ErrMalformed)
	l.Generation, l.Vector = v.Uint32(), v.Bytes()
	if v.End() != nil || len(l.Vector) == 0 || len(l.Vector)%4 != 0 {
		r.Fail()
	}
}
