// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk/text"
)

// sink is an output file, which may be compressed. The file receives its final name when it is complete.
type sink struct {
	path string
	file *os.File // nil for standard output
	out  *bufio.Writer
	zip  io.WriteCloser

	mu     sync.Mutex // guards all fields
	headed bool
}

func (u *unload) sink(path string) (*sink, error) {
	s := &sink{path: path}
	w := u.o.Stdout
	if path != Stdio {
		var err error
		if s.file, err = os.Create(path + ".part"); err != nil {
			return nil, err
		}
		w = s.file
	}
	s.out = bufio.NewWriterSize(w, 256<<10)
	var err error
	s.zip, err = compress(s.out, u.o.Compression)
	return s, err
}

// write writes records. On the first call, it writes the header before the records.
func (s *sink) write(header, records []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.headed {
		s.headed = true
		if _, err := s.zip.Write(header); err != nil {
			return err
		}
	}
	_, err := s.zip.Write(records)
	return err
}

// end completes the file. If err is not nil, it removes the file. end returns the error.
func (s *sink) end(err error) error {
	if err == nil {
		err = errors.Join(s.zip.Close(), s.out.Flush())
	}
	if s.file == nil {
		return err
	}
	if err == nil {
		err = s.file.Sync()
	}
	err = errors.Join(err, s.file.Close())
	if err != nil {
		os.Remove(s.file.Name())
		return err
	}
	if err := os.Rename(s.file.Name(), s.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.path))
}

// encoder encodes pages as text.
type encoder struct {
	format  Format
	columns []cqlwire.Column
	buf     []byte
	content []byte
}

// header returns the first record of a file.
func (e *encoder) header(page *cqlwire.Result) []byte {
	if e.format.JSON || !e.format.Header {
		return nil
	}
	var dst []byte
	for i, c := range page.Columns {
		if i > 0 {
			dst = append(dst, e.format.Dialect.Delimiter)
		}
		// The name is quoted in the same way as in INSERT, which Load accepts.
		dst = e.format.Dialect.AppendField(dst, []byte(c.Name), false)
	}
	return append(dst, '\n')
}

// page encodes the rows of a page. The result is valid until the next call.
func (e *encoder) page(page *cqlwire.Result) ([]byte, error) {
	e.buf, e.columns = e.buf[:0], page.Columns
	types, names := make([]*cqltype.Type, len(e.columns)), make([]string, len(e.columns))
	for i, c := range e.columns {
		types[i], names[i] = c.Type, c.Name
	}
	d := e.format.Dialect
	err := EachRow(page, func(row [][]byte) error {
		if e.format.JSON {
			e.buf = append(text.Object(e.buf, names, types, row), '\n')
			return nil
		}
		for i, v := range row {
			if i > 0 {
				e.buf = append(e.buf, d.Delimiter)
			}
			e.content = e.content[:0]
			if v != nil {
				e.content = text.Content(e.content, types[i], v)
			}
			e.buf = d.AppendField(e.buf, e.content, v == nil)
		}
		e.buf = append(e.buf, '\n')
		return nil
	})
	return e.buf, err
}
