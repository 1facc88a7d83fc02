// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// A continuation begins with the table ID of its container and a period. A place has no meaning in a container that
// was created later under the same name, and a client that resumed there would miss items. Continuations of builds
// before feature.ContinuationIDs contain no period. They are accepted.

// continuationBase is the numeric base of the table ID.
const continuationBase = 36

// continuation returns the client form of a query or list continuation. For an empty continuation, it returns "".
func (e *Engine) continuation(c *Container, rest string) string {
	if rest == "" || e.opts.Levels.Current() < feature.ContinuationIDs {
		return rest
	}
	return strconv.FormatUint(uint64(c.table.ID), continuationBase) + "." + rest
}

// continued parses the output of continuation.
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
		return "", Errorf(400, 0, "The continuation belongs to another container or to a dropped one. Start without a "+
			"continuation.")
	}
	return rest, nil
}

func badContinuation() *Error {
	return Errorf(400, 0, "The continuation is invalid.")
}

// continuationOf returns the continuation of a list of items. The continuation contains the place of the first item of
// the next page.
func (e *Engine) continuationOf(c *Container, p *place) string {
	return e.continuation(c, base64.RawURLEncoding.EncodeToString(p.append(nil)))
}

// placeIn parses the output of continuationOf. It returns "" for the beginning.
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
