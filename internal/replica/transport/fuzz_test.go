// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzFrames checks that no input makes the frame reader panic or allocate more memory than the input requires.
// Re-encoding a frame that the reader accepts must result in the same bytes.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(nil, kindRaft, []byte("hello"), nil))
	f.Add(appendFrame(appendFrame(nil, kindKeepAlive, nil, nil), kindPage, make([]byte, 8), make([]byte, 5000)))
	f.Add([]byte{255, 255, 255, 255, 2, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, reuse := range [][]byte{nil, make([]byte, 0, 8)} {
			r := frameReader{r: bufio.NewReaderSize(bytes.NewReader(in), 32), max: 8 << 20, reuse: reuse}
			var out []byte
			for {
				kind, payload, err := r.next()
				if err != nil {
					if err == io.EOF && !bytes.Equal(in, out) {
						t.Fatalf("%d of %d bytes, and the end", len(out), len(in))
					}
					break
				}
				out = appendFrame(out, kind, payload, nil)
			}
			if !bytes.HasPrefix(in, out) {
				t.Fatal("a frame was read that was not written")
			}
		}
	})
}

// FuzzHello checks that no input makes readHello panic or read beyond a hello, and that a hello of this version
// survives encoding.
func FuzzHello(f *testing.F) {
	h := hello{class: Raft, least: 1, most: 1, cluster: home, node: id(2), to: id(1), address: "10.0.0.1:7000",
		text: "why", history: "1 2 3"}
	f.Add(h.append(nil))
	f.Add([]byte("ilionr\x01\x01\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		h, err := readHello(r)
		if err != nil {
			return
		}
		used := len(in) - r.Len()
		if n := int(in[8]) | int(in[9])<<8; used != helloHead+n+4 {
			t.Fatalf("read %d bytes of a hello of %d", used, n)
		}
		if again, err := readHello(bytes.NewReader(h.append(nil))); overlap(h.least, h.most) &&
			(err != nil || again != h) {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

// busy is a handler that rejects all commands without starting a goroutine.
type busy struct{ handlers }

func (busy) ServeInline(_ []byte, r Responder) bool {
	r.Fail(ErrBusy)
	return true
}

// FuzzCommands checks that no payload makes either side of a command connection panic or accept an invalid frame.
func FuzzCommands(f *testing.F) {
	f.Add(byte(kindRequest), make([]byte, 17))
	f.Add(byte(kindCredit), make([]byte, 8))
	f.Add(byte(kindFail), make([]byte, 9))
	f.Add(byte(kindPage), make([]byte, 8))
	tr, err := New(Self{Node: id(1)}, nil, Options{})
	if err != nil {
		f.Fatal(err)
	}
	tr.commands = busy{}
	f.Cleanup(func() { tr.Close() })
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		v := &serving{t: tr, under: map[uint64]*responder{}}
		v.session = tr.newSession(nil, newOutbox(1<<20, 0))
		if err := v.handle(kind, b); err == nil && (kind < kindRequest || kind > kindCredit) || err != nil &&
			!errors.Is(err, ErrFrame) {
			t.Fatalf("kind %d: %v", kind, err)
		}
		l := &link{t: tr, class: Command, out: newOutbox(1<<20, 0), calls: map[uint64]*call{}}
		l.calls[0] = &call{pages: make(chan page, 1)}
		err := l.handle(kind, b)
		if err == nil && (kind < kindPage || kind > kindFail) || err != nil && !errors.Is(err, ErrFrame) {
			t.Fatalf("kind %d: %v", kind, err)
		}
	})
}
