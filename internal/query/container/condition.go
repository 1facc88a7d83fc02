// SPDX-License-Identifier: Apache-2.0

package container

import "context"

// holds reports whether the condition of a patch, from c where .., holds of an item.
func (t *Transaction) holds(ctx context.Context, condition, id string, s *stored) (bool, *Error) {
	return false, Errorf(400, 0, "Conditions of patches are not supported.")
}
