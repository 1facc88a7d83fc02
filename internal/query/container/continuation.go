// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// A continuation names the container that it belongs to, by the ID of its table, before a period. Places in a container
// say nothing about one that was created later under the same name: a client that goes on there would miss items. What
// builds before feature.ContinuationIDs have given has no period, which their encoding does not use, and is accepted.

// continuationBase is the base of the number of a table.
const continuationBase = 36

// continuation returns a continuation of a query or a list of items as clients get it; of "" it is "".
func (e *Engine) continuation(c *Container, rest string) string {
	if rest == "" || e.opts.Level() < feature.ContinuationIDs {
		return rest
	}
	return strconv.FormatUint(uint64(c.table.ID), continuationBase) + "." + rest
}

// continued reads what continuation returned.
func (c *Container) continued(text string) (rest string, bad *Error) {
	id, rest, ok := strings.Cut(text, ".")
	if !ok {
		return text, nil
	}
	n, err := strconv.ParseUint(id, continuationBase, 32)
	switch {
	case err != nil || rest == "":
		return "", badContinuation()
	case uint32(n) != c.table.ID:
		return "", Errorf(400, 0, "The continuation is that of another container, or of one that was dropped. Begin "+
			"without it.")
	}
	return rest, nil
}

func badContinuation() *Error {
	return Errorf(400, 0, "The continuation is not one that this database has given.")
}

// continuationOf returns the continuation of a list of items: the place of the first item of the next page.
func (e *Engine) continuationOf(c *Container, p *place) string {
	return e.continuation(c, base64.RawURLEncoding.EncodeToString(p.append(nil)))
}

// placeIn reads what continuationOf returned; "" is the beginning.
func (c *Container) placeIn(text string) (string, *Error) {
	rest, bad := c.continued(text)
	if bad != nil {
		return "", bad
	}
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return "", badContinuation()
	}
	return string(b), nil
}
