// SPDX-License-Identifier: Apache-2.0

package guardrail

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Guards checks statements. It is immutable and safe for concurrent use. If a *Guards is nil, no limits apply. Each
// check adds warnings to a list and returns an error if the statement must be rejected.
type Guards struct {
	Options
	// Reads reports whether any guardrail applies to the execution of a SELECT. Writes reports whether any guardrail
	// applies to the execution of a modification. Requests use Reads and Writes to skip checks.
	Reads, Writes bool
}

// New returns guards with the given options.
func New(o Options) *Guards {
	writes := o.CollectionSize.on() || o.ColumnValueSize.on() || o.ItemsPerCollection.on() ||
		o.MaximumTimestamp.on() || o.MinimumTimestamp.on() || o.Disabled["read_before_write_list_operations"]
	reads := o.PartitionKeysInSelect.on() || o.InSelectCartesianProduct.on() || o.PageSize.on() ||
		o.Disabled["non_partition_restricted_index_query"]
	return &Guards{Options: o, Reads: reads, Writes: writes}
}

// Check holds the guards and the warnings for one statement.
type Check struct {
	*Guards
	Warnings []string
}

// On reports whether guardrails apply to the statement.
func (c *Check) On() bool { return c != nil && c.Guards != nil }

func (c *Check) warn(name, text string) {
	c.Warnings = append(c.Warnings, "Guardrail "+name+" violated: "+text)
}

// fail returns the error for a violated guardrail. It also adds the error to the warnings.
func (c *Check) fail(name, text string) error {
	c.warn(name, text)
	return &dberr.Invalid{Message: c.Warnings[len(c.Warnings)-1]}
}

// checkMax checks a number against a threshold with upper limits. warn and fail return the texts for an exceeded limit.
func (c *Check) checkMax(name string, t Threshold, n int64, warn, fail func(bound int64) string) error {
	switch {
	case t.Fail > 0 && n > t.Fail:
		return c.fail(name, fail(t.Fail))
	case t.Warn > 0 && n > t.Warn:
		c.warn(name, warn(t.Warn))
	}
	return nil
}

// checkMin checks a number against a threshold with lower limits.
func (c *Check) checkMin(name string, t Threshold, n int64, warn, fail func(bound int64) string) error {
	switch {
	case t.Fail > 0 && n < t.Fail:
		return c.fail(name, fail(t.Fail))
	case t.Warn > 0 && n < t.Warn:
		c.warn(name, warn(t.Warn))
	}
	return nil
}

// checkValues checks values against the lists of a guardrail. ignored holds the values that the caller must ignore.
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

// checkEnabled rejects a disabled feature. text is the error text.
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
