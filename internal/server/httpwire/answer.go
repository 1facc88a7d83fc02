// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Continue is what a client is told that waits before it sends the body.
const Continue = "HTTP/1.1 100 Continue\r\n\r\n"

// statusMax is above every status.
const statusMax = 600

// firstLines are the first lines of answers by status.
var firstLines = func() (lines [statusMax]string) {
	for status := range lines {
		text := http.StatusText(status)
		if text == "" {
			text = "status code " + strconv.Itoa(status)
		}
		lines[status] = "HTTP/1.1 " + strconv.Itoa(status) + " " + text + "\r\n"
	}
	return lines
}()

// AppendStatus appends the first line of an answer. The status is one from 100 to 599.
func AppendStatus(dst []byte, status int) []byte { return append(dst, firstLines[status]...) }

// Dates makes the Date headers of a server's answers. It is safe for concurrent use.
type Dates struct {
	// last is the one that was asked for last: most answers have that of the one before.
	last atomic.Pointer[date]
}

// date is the date of one second as a line.
type date struct {
	second int64
	line   string
}

// Append appends the Date header of a time.
func (d *Dates) Append(dst []byte, now time.Time) []byte {
	last := d.last.Load()
	if second := now.Unix(); last == nil || last.second != second {
		last = &date{second, "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		d.last.Store(last)
	}
	return append(dst, last.line...)
}

// AppendField appends a header field. Its name is a token. A line end in the value becomes a blank, as do other
// control characters.
func AppendField[T string | []byte](dst []byte, name string, value T) []byte {
	dst = append(append(dst, name...), ": "...)
	begin := len(dst)
	dst = append(dst, value...)
	for i := begin; i < len(dst); i++ {
		if c := dst[i]; c < ' ' && c != '\t' || c == 0x7f {
			dst[i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}

// AppendLength appends the length of the body, and ends the head.
func AppendLength(dst []byte, length int) []byte {
	dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(length), 10)
	return append(dst, "\r\n\r\n"...)
}
