// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/query/container"
)

// offerResource is a throughput in the format that clients use.
type offerResource struct {
	ID       string       `json:"id"`
	RID      string       `json:"_rid"`
	Self     string       `json:"_self"`
	ETag     string       `json:"_etag"`
	TS       int64        `json:"_ts"`
	Resource string       `json:"resource"`
	Of       string       `json:"offerResourceId"`
	Version  string       `json:"offerVersion"`
	Type     string       `json:"offerType"`
	Content  offerContent `json:"content"`
}

// offerContent is the content of an offer.
type offerContent struct {
	Throughput int64      `json:"offerThroughput,omitempty"`
	Autopilot  *autopilot `json:"offerAutopilotSettings,omitempty"`
	PerMinute  bool       `json:"offerIsRUPerMinuteThroughputEnabled"`
}

// autopilot is an autoscale throughput in offers and in the request header.
type autopilot struct {
	Max     int64          `json:"maxThroughput"`
	Upgrade *upgradePolicy `json:"autoUpgradePolicy,omitempty"`
}

type upgradePolicy struct {
	Throughput struct {
		IncrementPercent int64 `json:"incrementPercent"`
	} `json:"throughputPolicy"`
}

func autopilotOf(t container.Throughput) *autopilot {
	a := &autopilot{Max: t.Autoscale}
	if t.Increment != 0 {
		a.Upgrade = &upgradePolicy{}
		a.Upgrade.Throughput.IncrementPercent = t.Increment
	}
	return a
}

func (a *autopilot) throughput() container.Throughput {
	t := container.Throughput{Autoscale: a.Max}
	if a.Upgrade != nil {
		t.Increment = a.Upgrade.Throughput.IncrementPercent
	}
	return t
}

// autoscaleFloor is the divisor that converts the maximum of an autoscale throughput to its minimum.
const autoscaleFloor = 10

func offerJSON(o *container.Offer) ([]byte, error) {
	r := offerResource{ID: o.ID, RID: o.ID, Self: "offers/" + o.ID + "/", ETag: o.Etag, TS: o.TS, Resource: o.Resource,
		Of: o.ResourceRID, Version: "V2", Type: "Invalid"}
	r.Content.Throughput = o.Manual
	if o.Autoscale > 0 {
		r.Content.Throughput = o.Autoscale / autoscaleFloor
		r.Content.Autopilot = autopilotOf(o.Throughput)
	}
	return json.Marshal(&r)
}

// offerHandler serves offers.
type offerHandler struct {
	engine throughputs
	lists  lists
}

func (h *offerHandler) all() (out []listed, err error) {
	for _, o := range h.engine.Offers() {
		b, err := offerJSON(o)
		if err != nil {
			return nil, err
		}
		out = append(out, listed{key: o.ID, body: b})
	}
	return out, nil
}

// throughputMin is the minimum throughput of a container or database in request units per second.
const throughputMin = 400

// setOffer sets the headers of offer responses.
func (o *output) setOffer() {
	o.set(aMinOffer, strconv.Itoa(throughputMin))
	o.set(aOfferPending, "false")
}

func (h *offerHandler) list(ctx context.Context, x *exchange) (*answer, error) {
	all, err := h.all()
	if err != nil {
		return nil, err
	}
	x.setOffer()
	return h.lists.serve(ctx, x, "", "Offers", all)
}

func (h *offerHandler) read(_ context.Context, x *exchange) (*answer, error) {
	o, err := h.engine.Offer(x.target.id())
	if err != nil {
		return nil, err
	}
	return x.offer(o)
}

func (x *exchange) offer(o *container.Offer) (*answer, error) {
	b, err := offerJSON(o)
	if err != nil {
		return nil, err
	}
	x.setOffer()
	return x.found(http.StatusOK, o.Etag, b), nil
}

func (h *offerHandler) replace(ctx context.Context, x *exchange) (*answer, error) {
	o, err := h.engine.Offer(x.target.id())
	if err != nil {
		return nil, err
	}
	var sent struct {
		Content offerContent `json:"content"`
	}
	if err := json.Unmarshal(x.body, &sent); err != nil {
		return nil, badRequest("The body of the request is not a valid offer: " + err.Error())
	}
	t := container.Throughput{Manual: sent.Content.Throughput}
	if sent.Content.Autopilot != nil {
		t = sent.Content.Autopilot.throughput()
	}
	if t.Manual <= 0 && t.Autoscale <= 0 {
		return nil, badRequest("The offer has neither content.offerThroughput nor content.offerAutopilotSettings.maxThroughput.")
	}
	if o, err = h.engine.ReplaceOffer(ctx, o, t, x.header.Get(hIfMatch)); err != nil {
		return nil, err
	}
	return x.offer(o)
}
