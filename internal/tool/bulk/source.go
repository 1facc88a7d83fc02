// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/tool/bulk/text"
)

const (
	// blockBytes is the size at which a block ends after the current record.
	blockBytes = 128 << 10
	// recordMax is the maximum size of a record.
	recordMax = 64 << 20
)

// position is the read position in the files, at the start of a record.
type position struct {
	// File is the index of the file. Offset is the offset in the uncompressed data of the file. Line is the number of
	// preceding lines.
	File   int   `json:"file"`
	Offset int64 `json:"offset"`
	Line   int   `json:"line"`
}

// block is a sequence of records in a file. It is processed and committed as a unit.
type block struct {
	seq  int
	path string
	// columns lists the columns of the header. It is nil if the source has no header.
	columns []string
	line    int // number of lines before the first record
	data    string
	end     position
	raw     int64 // bytes of the stored file that were read up to the end of the block

	// pending is the number of rows without a response. It is one higher while rows are being sent.
	pending atomic.Int64
	loaded  atomic.Int64
	mu      sync.Mutex // guards rejects
	rejects []reject
}

// reject is a rejected row.
type reject struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
	Row    string `json:"row"`
}

func (b *block) reject(line int, row string, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rejects = append(b.rejects, reject{b.path, line, why.Error(), row})
}

// lines reads the lines of a file and counts its bytes.
type lines struct {
	in     *bufio.Reader
	raw    int64
	offset int64
	number int
	quotes *text.Quotes
}

// counted counts the bytes read from the stored file.
type counted struct {
	io.Reader
	n *int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	*c.n += int64(n)
	return n, err
}

// record appends the next record with its line end. It returns io.EOF at the end.
func (l *lines) record(dst []byte) ([]byte, error) {
	from := len(dst)
	first := l.number + 1
	for {
		piece, err := l.in.ReadSlice('\n')
		dst = append(dst, piece...)
		l.offset += int64(len(piece))
		if len(dst)-from > recordMax {
			return dst, fmt.Errorf("line %d: the record exceeds %d bytes. Check for an unclosed quote", first, recordMax)
		}
		whole := l.quotes == nil || l.quotes.Feed(piece)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil:
			if l.number++; whole {
				return dst, nil
			}
		case err != io.EOF:
			return dst, err
		case len(dst) == from:
			return dst, io.EOF
		case !whole:
			return dst, fmt.Errorf("line %d: the file ends within quotes", first)
		default:
			l.number++
			return dst, nil
		}
	}
}

// source reads files, starting at a position, and distributes their blocks.
type source struct {
	files  []input
	format Format
	stdin  io.Reader
	from   position
	seq    int
}

// run distributes blocks until the end of the files.
func (s *source) run(ctx context.Context, out chan<- *block) error {
	for i := s.from.File; i < len(s.files); i++ {
		from := position{File: i}
		if i == s.from.File {
			from = s.from
		}
		if err := s.file(ctx, from, out); err != nil {
			return fmt.Errorf("%s: %w", s.files[i].Path, err)
		}
	}
	return nil
}

// file distributes the blocks of one file.
func (s *source) file(ctx context.Context, from position, out chan<- *block) error {
	path := s.files[from.File].Path
	stored := s.stdin
	if path != Stdio {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		stored = f
	}
	l := &lines{}
	r, err := decompress(counted{stored, &l.raw})
	if err != nil {
		return err
	}
	l.in = bufio.NewReaderSize(r, 1<<16)
	if !s.format.JSON {
		l.quotes = s.format.Dialect.Quotes()
	}
	var columns []string
	if !s.format.JSON && s.format.Header {
		if columns, err = s.header(l); err != nil || columns == nil {
			return err
		}
	}
	if skip := from.Offset - l.offset; skip > 0 {
		if _, err := io.CopyN(io.Discard, l.in, skip); err != nil {
			return fmt.Errorf("the file is shorter than at the start of the load: %w", err)
		}
		l.offset, l.number = from.Offset, from.Line
	}
	var read int64
	for ended := false; !ended; {
		b := &block{path: path, columns: columns, line: l.number}
		var data []byte
		for began := time.Now(); len(data) < blockBytes; {
			data, err = l.record(data)
			if ended = errors.Is(err, io.EOF); ended {
				break
			}
			if err != nil {
				return err
			}
			if path == Stdio && time.Since(began) > time.Second {
				break // do not wait, because rows that arrive slowly must be sent immediately
			}
		}
		if len(data) == 0 {
			break
		}
		b.data, b.end, b.seq = string(data), position{from.File, l.offset, l.number}, s.seq
		b.raw, read = l.raw-read, l.raw
		s.seq++
		select {
		case out <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// header reads the column names. It returns nil if the file is empty.
func (s *source) header(l *lines) ([]string, error) {
	record, err := l.record(nil)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	fields, err := s.format.Dialect.Fields(nil, strings.TrimPrefix(trimLine(string(record)), "\ufeff"))
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	var names []string
	for _, f := range fields {
		if f.Text == "" {
			return nil, errors.New("line 1: the header contains an empty column name")
		}
		names = append(names, f.Text)
	}
	return names, nil
}

// trimLine removes the line end.
func trimLine(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }

// records calls f with the line number and the text of each record. It skips empty records.
func (b *block) records(format Format, f func(line int, record string) error) error {
	var quotes *text.Quotes
	if !format.JSON {
		quotes = format.Dialect.Quotes()
	}
	line, first, from := b.line, b.line+1, 0
	for at := 0; at < len(b.data); {
		n := strings.IndexByte(b.data[at:], '\n') + 1
		if n == 0 {
			n = len(b.data) - at
		}
		piece := b.data[at : at+n]
		at += n
		line++
		if quotes != nil && !quotes.Feed([]byte(piece)) {
			continue
		}
		if record := trimLine(b.data[from:at]); record != "" {
			if err := f(first, record); err != nil {
				return err
			}
		}
		from, first = at, line+1
	}
	return nil
}
