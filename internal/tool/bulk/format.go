// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/ilion-db/ilion/internal/tool/bulk/text"
)

// Format is the format of rows in files.
type Format struct {
	// JSON selects JSON lines. If JSON is false, the format is CSV in the given dialect. If Header is true, the first
	// record contains the column names.
	JSON    bool
	Dialect text.Dialect
	Header  bool
}

// Compression is the compression of a file.
type Compression string

// These are the compression algorithms.
const (
	Plain Compression = "none"
	Gzip  Compression = "gzip"
	Zstd  Compression = "zstd"
)

// suffix returns the file name suffix of the compression.
func (c Compression) suffix() string {
	return map[Compression]string{Gzip: ".gz", Zstd: ".zst"}[c]
}

// CompressionOf returns the compression that a file name indicates.
func CompressionOf(path string) Compression {
	for _, c := range []Compression{Gzip, Zstd} {
		if strings.HasSuffix(path, c.suffix()) {
			return c
		}
	}
	return Plain
}

// These are the magic numbers of compressed files (RFC 1952, RFC 8878).
var gzipMagic, zstdMagic = []byte{0x1f, 0x8b}, []byte{0x28, 0xb5, 0x2f, 0xfd}

// zstdWindowMax is the maximum memory of a zstd decoder, in bytes.
const zstdWindowMax = 128 << 20

// decompress returns a reader for compressed or uncompressed data. It recognizes the compression by the first bytes.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		return gzip.NewReader(b)
	case bytes.HasPrefix(head, zstdMagic):
		return zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax))
	}
	return b, nil
}

// nopCloser is a writer whose Close does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// compress returns a writer that compresses. Close ends the compressed stream but does not close w.
func compress(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case Gzip:
		return gzip.NewWriter(w), nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return nopCloser{w}, nil
}

// Stdio is the path that represents standard input and standard output.
const Stdio = "-"

// input is a file to load.
type input struct {
	Path string `json:"path"`
	// Size and Modified (in nanoseconds since 1970) reveal changes to the file.
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"`
}

// inputs lists the files that paths refer to. A directory represents the files in it whose names have a suffix of the
// format.
func inputs(paths []string, f Format) ([]input, error) {
	endings := []string{".csv", ".tsv", ".txt"}
	if f.JSON {
		endings = []string{".json", ".jsonl", ".ndjson"}
	}
	var l []input
	add := func(path string, s os.FileInfo) {
		l = append(l, input{path, s.Size(), s.ModTime().UnixNano()})
	}
	for _, path := range paths {
		if path == Stdio {
			l = append(l, input{Path: path})
			continue
		}
		s, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("file or directory %s does not exist", path)
		}
		if err != nil {
			return nil, err
		}
		if !s.IsDir() {
			add(path, s)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries { // sorted by name
			name := strings.TrimSuffix(e.Name(), CompressionOf(e.Name()).suffix())
			if s, err := e.Info(); err == nil && s.Mode().IsRegular() && slices.Contains(endings, filepath.Ext(name)) {
				found = true
				add(filepath.Join(path, e.Name()), s)
			}
		}
		if !found {
			return nil, fmt.Errorf("%s contains no file with the suffix %s, compressed or not", path,
				strings.Join(endings, ", "))
		}
	}
	return l, nil
}
