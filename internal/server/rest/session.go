// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/query/container"
)

// sessionMax is the maximum size, in bytes, of the session token of a whole container. If a container has too many
// physical partitions, clients receive only the tokens of the partitions that they use.
const sessionMax = 16 << 10

// A session token has the form RANGE:VERSION#LSN. It may be followed by #REGION=LSN.

// parseSession parses the token of one physical partition.
func parseSession(token string) (rangeID string, lsn int64, ok bool) {
	rangeID, rest, ok := strings.Cut(strings.TrimSpace(token), ":")
	if !ok || rangeID == "" {
		return "", 0, false
	}
	if _, after, versioned := strings.Cut(rest, "#"); versioned {
		rest, _, _ = strings.Cut(after, "#")
	}
	lsn, err := strconv.ParseInt(rest, 10, 64)
	return rangeID, lsn, err == nil && lsn >= 0
}

// appendSession appends the token of one physical partition.
func appendSession(dst []byte, rangeID string, lsn int64) []byte {
	dst = append(append(dst, rangeID...), ":-1#"...)
	return strconv.AppendInt(dst, lsn, 10)
}

// sessions processes session tokens.
type sessions struct{ progress }

// accept processes the session tokens of a request. As a result, responses do not report less progress than the
// tokens.
func (s sessions) accept(x *exchange) {
	for token := range strings.SplitSeq(x.header.Get(hSession), ",") {
		if id, lsn, ok := parseSession(token); ok {
			s.Seen(id, lsn)
		}
	}
}

// report sets the session token of a whole container.
func (s sessions) report(x *exchange, c *container.Container) {
	ranges, _ := s.Ranges(c)
	var text []byte
	for i := range ranges {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendSession(text, ranges[i].ID, s.LSN(ranges[i].ID))
	}
	if len(text) > 0 && len(text) < sessionMax {
		x.set(aSession, string(text))
	}
}

// These are the quota of a container and its usage, in KB, that clients receive.
const (
	quotaText = "documentSize=2048;documentsSize=-1;documentsCount=-1;collectionSize=10485760;"
	usageText = "documentSize=0;documentsSize=0;documentsCount=0;collectionSize=0;"
)

// where sets the headers for the origin and the charge of a response.
func (o *output) where(w container.Where) {
	o.charge = w.Charge
	if w.Range == "" {
		return
	}
	o.set(aRange, w.Range)
	o.set(aPhysical, w.Range)
	o.setNumber(aLSN, w.LSN)
	begin := len(o.values)
	o.values = appendSession(o.values, w.Range, w.LSN)
	o.end(aSession, begin)
}
