// SPDX-License-Identifier: Apache-2.0

package guardrail

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Guards check statements. They do not change and may be used by many goroutines; nil lets everything pass. A check
// adds its warnings to a list and returns the error of what is refused.
type Guards struct {
	Options
	// Reads is true if any guardrail concerns how a SELECT is executed, Writes if any concerns the values of writes: so
	// that requests need not ask one after the other.
	Reads, Writes bool
}

// New makes guards of options.
func New(o Options) *Guards {
	writes := o.CollectionSize.on() || o.ColumnValueSize.on() || o.ItemsPerCollection.on() ||
		o.MaximumTimestamp.on() || o.MinimumTimestamp.on() || o.Disabled["read_before_write_list_operations"]
	reads := o.PartitionKeysInSelect.on() || o.InSelectCartesianProduct.on() || o.PageSize.on() ||
		o.Disabled["non_partition_restricted_index_query"]
	return &Guards{Options: o, Reads: reads, Writes: writes}
}

// A Check is one statement's: the guards that hold for it, and the warnings so far.
type Check struct {
	*Guards
	Warnings []string
}

// On reports whether there is anything to check.
func (c *Check) On() bool { return c != nil && c.Guards != nil }

func (c *Check) warn(name, text string) {
	c.Warnings = append(c.Warnings, "Guardrail "+name+" violated: "+text)
}

// refuse is the error of a violated guardrail, which is among the warnings, too.
func (c *Check) fail(name, text string) error {
	c.warn(name, text)
	return &dberr.Invalid{Message: c.Warnings[len(c.Warnings)-1]}
}

// over checks a number against the bounds of a threshold; warn and fail make the texts of a bound that is exceeded.
func (c *Check) checkMax(name string, t Threshold, n int64, warn, fail func(bound int64) string) error {
	switch {
	case t.Fail > 0 && n > t.Fail:
		return c.fail(name, fail(t.Fail))
	case t.Warn > 0 && n > t.Warn:
		c.warn(name, warn(t.Warn))
	}
	return nil
}

// under is over for bounds below.
func (c *Check) checkMin(name string, t Threshold, n int64, warn, fail func(bound int64) string) error {
	switch {
	case t.Fail > 0 && n < t.Fail:
		return c.fail(name, fail(t.Fail))
	case t.Warn > 0 && n < t.Warn:
		c.warn(name, warn(t.Warn))
	}
	return nil
}

// any checks values against the lists of a guardrail; ignored are those that are to be passed over.
func (c *Check) checkValues(name, what string, v *Values, values ...string) (ignored []string, err error) {
	in := func(listed []string) (out []string) {
		for _, value := range values {
			if slices.Contains(listed, value) {
				out = append(out, value)
			}
		}
		return out
	}
	if found := in(v.Disallowed); found != nil {
		return nil, c.fail(name, fmt.Sprintf("Provided values %s are not allowed for %s (disallowed values are: %s)",
			list(found), what, list(v.Disallowed)))
	}
	if ignored = in(v.Ignored); ignored != nil {
		c.warn(name, fmt.Sprintf("Ignoring provided values %s as they are not supported for %s (ignored values "+
			"are: %s)", list(ignored), what, list(v.Ignored)))
	}
	if found := in(v.Warned); found != nil {
		c.warn(name, fmt.Sprintf("Provided values %s are not recommended for %s (warned values are: %s)", list(found),
			what, list(v.Warned)))
	}
	return ignored, nil
}

// enabled refuses what is switched off; text says what that is.
func (c *Check) checkEnabled(option, text string) error {
	if !c.Disabled[option] {
		return nil
	}
	name := option
	for _, s := range switches {
		if s.option == option && s.name != "" {
			name = s.name
		}
	}
	return c.fail(name, text)
}
