// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
)

// snapshotReader is an incoming snapshot, over one or more connections.
type snapshotReader struct {
	r     *io.PipeReader
	ended bool
}

// Read returns io.EOF only after all announced bytes with a correct checksum.
func (s *snapshotReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err == io.EOF { //nolint:errorlint // a pipe returns the error with which it was closed
		s.ended = true
	}
	return n, err
}

type transferID struct {
	node        NodeID
	incarnation uint64
	sequence    uint64
}

// transfer is an incoming snapshot. It is kept for ResumeTimeout after it loses its connection, so that the sender can
// resume the transfer or request the result.
type transfer struct {
	id transferID
	w  *io.PipeWriter
	// done is closed when the handler has returned. err is the handler's result, and finished is the time at which the
	// handler returned.
	done     chan struct{}
	err      error
	finished time.Time

	// The connection that feeds the transfer holds turn, which guards the fields below.
	turn chan struct{}
	reassembly
	ended   bool
	retired bool

	mu      sync.Mutex
	session *session
	timer   *time.Timer
}

// fail makes the next Read of the handler fail.
func (tr *transfer) fail(err error) { _ = tr.w.CloseWithError(err) }

func (tr *transfer) stopTimer() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.timer.Stop()
}

// snapshotReceiver holds the incoming snapshots.
type snapshotReceiver struct {
	t *Transport

	mu        sync.Mutex
	transfers map[transferID]*transfer
}

// fail makes the next Read of every handler fail.
func (x *snapshotReceiver) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, tr := range x.transfers {
		tr.fail(err)
	}
}

// forgetAll forgets all transfers. The handlers of the transfers must have returned.
func (x *snapshotReceiver) forgetAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, tr := range x.transfers {
		tr.stopTimer()
	}
	clear(x.transfers)
}

// serve serves an accepted snapshot connection until it closes.
func (x *snapshotReceiver) serve(s *stream) {
	t := x.t
	if t.reply(s, Snapshot, s.peer.Node, nil) != nil {
		return
	}
	session := t.newSession(s, t.outbox())
	var tr *transfer
	_ = session.run(true, func(kind byte, b []byte) (err error) {
		switch {
		case kind == kindSnapshotBegin && len(b) == 16 && tr == nil:
			tr, err = x.begin(session, binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:])))
			return err
		case kind == kindSnapshotChunk && len(b) >= 8 && tr != nil:
			return tr.chunk(session, int64(binary.LittleEndian.Uint64(b)), b[8:])
		case kind == kindSnapshotEnd && len(b) == 4 && tr != nil:
			return tr.end(session, binary.LittleEndian.Uint32(b))
		}
		return malformed(kind, len(b))
	})
	if tr != nil {
		x.detach(tr, session)
	}
}

// begin attaches a connection to its transfer. It sends the sender the offset at which to continue, or the result.
func (x *snapshotReceiver) begin(s *session, sequence uint64, size int64) (*transfer, error) {
	id := transferID{s.s.peer.Node, s.s.peer.Incarnation, sequence}
	if size < 0 || size > x.t.opts.SnapshotBytes {
		result(s, fmt.Errorf("%w: this node does not accept a snapshot of %d bytes", ErrBusy, size))
		return nil, nil
	}
	x.mu.Lock()
	tr := x.transfers[id]
	if tr == nil {
		tr = x.newTransfer(id, size)
	}
	x.mu.Unlock()
	if tr == nil {
		result(s, fmt.Errorf("%w: SnapshotsInbound", ErrBusy))
		return nil, nil
	}
	tr.mu.Lock()
	before := tr.session
	tr.session = s
	tr.mu.Unlock()
	if before != nil {
		before.abort(ErrLost)
	}
	select {
	case <-tr.turn:
	case <-s.dead:
		return nil, s.err
	}
	tr.stopTimer()
	if tr.retired || tr.size != size {
		tr.turn <- struct{}{}
		return nil, ErrSnapshot
	}
	select {
	case <-tr.done:
		result(s, tr.err)
	default:
		if tr.ended {
			return tr, tr.finish(s)
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(tr.offset))
		s.out.force(kindSnapshotOffset, b[:], nil)
	}
	return tr, nil
}

// newTransfer starts a handler. It returns nil if too many transfers exist. The caller must hold mu.
func (x *snapshotReceiver) newTransfer(id transferID, size int64) *transfer {
	t := x.t
	running := 0
	for _, tr := range x.transfers {
		select {
		case <-tr.done:
		default:
			running++
		}
	}
	if running >= t.opts.SnapshotsInbound ||
		len(x.transfers) >= transfersKept*t.opts.SnapshotsInbound && !x.makeRoom() {
		return nil
	}
	r, w := io.Pipe()
	tr := &transfer{id: id, reassembly: reassembly{size: size}, w: w, done: make(chan struct{}),
		turn: make(chan struct{}, 1)}
	tr.turn <- struct{}{}
	if !t.goRun(func() { x.handle(tr, r) }) {
		return nil
	}
	tr.timer = time.AfterFunc(t.opts.ResumeTimeout, func() { x.retire(tr) })
	x.transfers[id] = tr
	return tr
}

// handle runs the handler of a transfer.
func (x *snapshotReceiver) handle(tr *transfer, r *io.PipeReader) {
	defer close(tr.done)
	s := &snapshotReader{r: r}
	defer func() { tr.finished = time.Now() }()
	tr.err = x.t.raft.ReceiveSnapshot(tr.id.node, s, tr.size)
	if tr.err == nil && !s.ended {
		tr.err = fmt.Errorf("%w: the handler did not read it completely", ErrSnapshot)
	}
	_ = r.CloseWithError(ErrSnapshot)
	if tr.err == nil {
		x.t.counters.snapshotsReceived.Add(1)
	}
}

// transfersKept is the maximum number of kept transfers divided by Options.SnapshotsInbound.
const transfersKept = 16

// makeRoom removes the finished transfer whose sender has been disconnected for the longest time. The caller must hold
// mu.
func (x *snapshotReceiver) makeRoom() bool {
	var oldest *transfer
	for _, tr := range x.transfers {
		select {
		case <-tr.done:
			if len(tr.turn) == 1 && (oldest == nil || tr.finished.Before(oldest.finished)) {
				oldest = tr
			}
		default:
		}
	}
	if oldest == nil {
		return false
	}
	select {
	case <-oldest.turn:
	default:
		return false // a sender is requesting the result
	}
	oldest.retired = true
	oldest.stopTimer()
	oldest.turn <- struct{}{}
	delete(x.transfers, oldest.id)
	return true
}

// detach releases the turn and keeps the transfer for some time.
func (x *snapshotReceiver) detach(tr *transfer, s *session) {
	tr.mu.Lock()
	if tr.session == s {
		tr.session = nil
	}
	tr.timer.Reset(x.t.opts.ResumeTimeout)
	tr.mu.Unlock()
	tr.turn <- struct{}{}
}

// retire removes a transfer without a connection.
func (x *snapshotReceiver) retire(tr *transfer) {
	select {
	case <-tr.turn:
	default:
		return // a connection feeds the transfer
	}
	defer func() { tr.turn <- struct{}{} }()
	select {
	case <-tr.done:
	default:
		if tr.ended { // the handler is still processing the data, and the sender may request the result later
			tr.mu.Lock()
			tr.timer.Reset(x.t.opts.ResumeTimeout)
			tr.mu.Unlock()
			return
		}
	}
	tr.retired = true
	tr.fail(fmt.Errorf("%w: received %d of %d bytes", ErrSnapshot, tr.offset, tr.size))
	x.mu.Lock()
	if x.transfers[tr.id] == tr {
		delete(x.transfers, tr.id)
	}
	x.mu.Unlock()
}

// chunk passes bytes to the handler.
func (tr *transfer) chunk(s *session, offset int64, b []byte) error {
	if tr.ended {
		return nil // the handler has stopped, and the sender does not know this yet
	}
	if err := tr.add(offset, b); err != nil {
		return err
	}
	if _, err := tr.w.Write(b); err != nil {
		tr.ended = true
		return tr.finish(s)
	}
	return nil
}

// end verifies the snapshot and sends the handler's result to the sender.
func (tr *transfer) end(s *session, sum uint32) error {
	if tr.ended {
		return nil
	}
	tr.ended = true
	if err := tr.whole(sum); err != nil {
		tr.fail(err)
	} else {
		_ = tr.w.Close()
	}
	return tr.finish(s)
}

// finish waits for the handler.
func (tr *transfer) finish(s *session) error {
	select {
	case <-tr.done:
		result(s, tr.err)
		return nil
	case <-s.dead:
		return s.err
	}
}

func result(s *session, err error) {
	if err == nil {
		s.out.force(kindResult, []byte{byte(statusOK)}, nil)
		return
	}
	s.out.force(kindResult, []byte{byte(statusOf(err))}, []byte(clip(err.Error(), textMax)))
}
