// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// setOwner sets the headers that identify the owner of the resources in the response. The owner is a database or one
// of its containers. SDKs combine the path of the owner and the ID of a resource to get the path of the resource.
func (o *output) setOwner(d *container.Database, c *container.Container) {
	begin, rid := len(o.values), d.RID
	o.values = append(append(o.values, "dbs/"...), headerText(d.ID)...)
	if c != nil {
		o.values = append(append(o.values, "/colls/"...), headerText(c.ID)...)
		rid = c.RID
	}
	o.end(aAltPath, begin)
	o.set(aPath, rid)
}

// headerText returns a name in a form that can be used in a header. Non-ASCII characters are percent-encoded.
func headerText(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return escapeHeader(s)
		}
	}
	return s
}

func escapeHeader(s string) string {
	const digits = "0123456789ABCDEF"
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			out = append(out, '%', digits[s[i]>>4], digits[s[i]&15])
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

// found returns a response with a resource. If the client already has the version with the given etag, the status is
// 304.
func (x *exchange) found(status int, etag string, body []byte) *answer {
	x.set(aETag, etag)
	if status == http.StatusOK && x.request.Method == get && matchesETag(x.header.Get(hIfNoneMatch), etag) {
		return &answer{status: http.StatusNotModified}
	}
	return &answer{status, body}
}

func matchesETag(condition, etag string) bool {
	return condition != "" && (condition == "*" || condition == etag)
}

// throughput parses the throughput headers of a new resource.
func throughput(h httpwire.Fields) (container.Throughput, error) {
	var t container.Throughput
	manual, automatic := h.Get(hThroughput), h.Get(hAutopilot)
	switch {
	case manual != "" && automatic != "":
		return t, badRequest("Both x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings are set. Set only one of them.")
	case manual != "":
		n, err := strconv.ParseInt(manual, 10, 64)
		if err != nil || n <= 0 {
			return t, badRequest("x-ms-offer-throughput " + strconv.Quote(manual) +
				" is not a number of request units per second.")
		}
		t.Manual = n
	case automatic != "":
		var settings autopilot
		if err := json.Unmarshal([]byte(automatic), &settings); err != nil || settings.Max <= 0 {
			return t, badRequest(`x-ms-cosmos-offer-autopilot-settings must have the form {"maxThroughput": 1000}.`)
		}
		return settings.throughput(), nil
	}
	return t, nil
}

// idOf returns the ID in the body of a new resource.
func idOf(body []byte) (string, error) {
	var named struct {
		ID *string `json:"id"`
	}
	if err := json.Unmarshal(body, &named); err != nil {
		return "", badRequest("The body of the request must be a JSON object: " + err.Error())
	}
	if named.ID == nil {
		return "", badRequest(`The input content is invalid because the required property "id" is missing.`)
	}
	return *named.ID, nil
}
