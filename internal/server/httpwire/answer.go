// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Continue is the interim response to a client that waits before it sends the body.
const Continue = "HTTP/1.1 100 Continue\r\n\r\n"

// statusMax is greater than every status.
const statusMax = 600

// firstLines maps statuses to the status lines of responses.
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

// AppendStatus appends the status line of a response. The status must be between 100 and 599.
func AppendStatus(dst []byte, status int) []byte { return append(dst, firstLines[status]...) }

// Dates creates the Date headers of a server's responses. A Dates is safe for concurrent use.
type Dates struct {
	// last is the last date. Most responses have the same date as the previous response.
	last atomic.Pointer[date]
}

// date is the date of one second as a header line.
type date struct {
	second int64
	line   string
}

// Append appends the Date header for a time.
func (d *Dates) Append(dst []byte, now time.Time) []byte {
	last := d.last.Load()
	if second := now.Unix(); last == nil || last.second != second {
		last = &date{second, "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		d.last.Store(last)
	}
	return append(dst, last.line...)
}

// AppendField appends a header field. The name must be a token. Line ends and other control characters in the value
// are replaced with spaces.
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

// AppendLength appends the length of the body and ends the head.
func AppendLength(dst []byte, length int) []byte {
	dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(length), 10)
	return append(dst, "\r\n\r\n"...)
}
