// SPDX-License-Identifier: Apache-2.0

package session

// requestCopy holds a copy of a request's data. The copy is required for modifications that may be sent again after the
// method that received the request has returned. The memory of the copy is reused.
type requestCopy struct {
	active bool
	arena  []byte
	lists  [][]byte
	// These are the original fields of the request.
	values, names [][]byte
	statements    []BatchStatement
	keyspace      []byte
}

// requestCopyBytesMax limits the memory in bytes that is retained for the next request.
const requestCopyBytesMax = 64 << 10

// copyRequest copies the data of a request and makes the request refer to the copies.
func (k *requestCopy) copyRequest(r *Request) {
	k.active, k.values, k.names, k.statements, k.keyspace = true, r.Values, r.Names, r.Statements, r.Keyspace
	size, count := len(r.Keyspace), len(r.Values)+len(r.Names)
	for _, list := range [...][][]byte{r.Values, r.Names} {
		size += sizeOf(list)
	}
	for i := range r.Statements {
		size += len(r.Statements[i].Text) + sizeOf(r.Statements[i].Values)
		count += len(r.Statements[i].Values)
	}
	if k.arena == nil || cap(k.arena) < size { // a slice of a nil arena would turn an empty value into null
		k.arena = make([]byte, 0, size)
	}
	if cap(k.lists) < count {
		k.lists = make([][]byte, 0, count)
	}
	k.arena, k.lists = k.arena[:0], k.lists[:0]
	r.Keyspace, r.Values, r.Names = k.copyBytes(r.Keyspace), k.copyList(r.Values), k.copyList(r.Names)
	if len(r.Statements) == 0 {
		return
	}
	statements := make([]BatchStatement, len(r.Statements))
	for i, s := range r.Statements {
		s.Text, s.Values = k.copyBytes(s.Text), k.copyList(s.Values)
		statements[i] = s
	}
	r.Statements = statements
}

func sizeOf(list [][]byte) (n int) {
	for _, b := range list {
		n += len(b)
	}
	return n
}

// copyList copies a list. Nil lists and nil elements remain nil.
func (k *requestCopy) copyList(list [][]byte) [][]byte {
	if list == nil {
		return nil
	}
	begin := len(k.lists)
	for _, b := range list {
		k.lists = append(k.lists, k.copyBytes(b))
	}
	return k.lists[begin:len(k.lists):len(k.lists)]
}

func (k *requestCopy) copyBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	begin := len(k.arena)
	k.arena = append(k.arena, b...)
	return k.arena[begin:len(k.arena):len(k.arena)]
}

// restore makes a request refer to its original data again.
func (k *requestCopy) restore(r *Request) {
	if !k.active {
		return
	}
	r.Values, r.Names, r.Statements, r.Keyspace = k.values, k.names, k.statements, k.keyspace
	k.active, k.values, k.names, k.statements, k.keyspace = false, nil, nil, nil, nil
	clear(k.lists)
	if cap(k.arena)+24*cap(k.lists) > requestCopyBytesMax {
		k.arena, k.lists = nil, nil
	}
}
