// SPDX-License-Identifier: Apache-2.0

package topology

import "math/bits"

// tree is an immutable map from numbers to values. A change returns another tree that shares all nodes with the
// original tree, except one path of nodes. A node has 512 bytes. For up to a million consecutive numbers, a path has
// four nodes. The zero tree is empty.
type tree[V any] struct {
	root   *treeNode[V]
	height uint // number of levels above the lowest level
	count  int
}

const (
	treeBits = 5
	treeFan  = 1 << treeBits
)

// treeNode has children or, at the lowest level, values.
type treeNode[V any] struct {
	used     uint32 // one bit per occupied slot
	children *[treeFan]*treeNode[V]
	values   *[treeFan]*V
}

func (n *treeNode[V]) clone(level uint) *treeNode[V] {
	next := &treeNode[V]{}
	if n != nil {
		next.used = n.used
	}
	if level > 0 {
		next.children = new([treeFan]*treeNode[V])
		if n != nil {
			*next.children = *n.children
		}
		return next
	}
	next.values = new([treeFan]*V)
	if n != nil {
		*next.values = *n.values
	}
	return next
}

// get returns the value of a number, or nil if the number has no value.
func (t *tree[V]) get(id uint64) *V {
	if t.root == nil || id>>(treeBits*(t.height+1)) != 0 {
		return nil
	}
	n := t.root
	for level := t.height; level > 0; level-- {
		if n = n.children[id>>(treeBits*level)%treeFan]; n == nil {
			return nil
		}
	}
	return n.values[id%treeFan]
}

// with returns a tree in which a number has the given value. A nil value removes the number.
func (t tree[V]) with(id uint64, v *V) tree[V] {
	old := t.get(id)
	if old == v {
		return t
	}
	for t.root != nil && id>>(treeBits*(t.height+1)) != 0 {
		t.root = &treeNode[V]{used: 1, children: &[treeFan]*treeNode[V]{t.root}}
		t.height++
	}
	if t.root == nil {
		t.height = uint(max(bits.Len64(id)-1, 0)) / treeBits
	}
	switch {
	case old == nil:
		t.count++
	case v == nil:
		t.count--
	}
	t.root = t.root.set(t.height, id, v)
	return t
}

// set returns a copy of a node in which a value below the node is set. It returns nil if the copy would be empty.
func (n *treeNode[V]) set(level uint, id uint64, v *V) *treeNode[V] {
	next := n.clone(level)
	i := id >> (treeBits * level) % treeFan
	there := v != nil
	if level == 0 {
		next.values[i] = v
	} else {
		next.children[i] = next.children[i].set(level-1, id, v)
		there = next.children[i] != nil
	}
	if next.used |= 1 << i; !there {
		next.used &^= 1 << i
	}
	if next.used == 0 {
		return nil
	}
	return next
}

// all yields the numbers that have values, in ascending order.
func (t *tree[V]) all(yield func(uint64, *V) bool) {
	changes(tree[V]{}, *t, func(id uint64, _, v *V) bool { return yield(id, v) })
}

// changes yields the numbers whose values differ between two trees, with both values. The numbers are in ascending
// order. A missing value is nil. Shared nodes are skipped.
func changes[V any](a, b tree[V], yield func(id uint64, was, is *V) bool) {
	for a.root != nil && a.height < b.height {
		a.root, a.height = &treeNode[V]{used: 1, children: &[treeFan]*treeNode[V]{a.root}}, a.height+1
	}
	for b.root != nil && b.height < a.height {
		b.root, b.height = &treeNode[V]{used: 1, children: &[treeFan]*treeNode[V]{b.root}}, b.height+1
	}
	differ(a.root, b.root, max(a.height*uint(min(1, a.count)), b.height*uint(min(1, b.count))), 0, yield)
}

func differ[V any](a, b *treeNode[V], level uint, base uint64, yield func(uint64, *V, *V) bool) bool {
	if a == b {
		return true
	}
	var used uint32
	if a != nil {
		used |= a.used
	}
	if b != nil {
		used |= b.used
	}
	for ; used != 0; used &= used - 1 {
		i := uint64(bits.TrailingZeros32(used))
		id := base | i<<(treeBits*level)
		if level > 0 {
			var x, y *treeNode[V]
			if a != nil {
				x = a.children[i]
			}
			if b != nil {
				y = b.children[i]
			}
			if !differ(x, y, level-1, id, yield) {
				return false
			}
			continue
		}
		var was, is *V
		if a != nil {
			was = a.values[i]
		}
		if b != nil {
			is = b.values[i]
		}
		if was != is && !yield(id, was, is) {
			return false
		}
	}
	return true
}
