// SPDX-License-Identifier: Apache-2.0

package simenv

import "reflect"

// AddCounts adds the integers of one struct to another struct of the same type. It includes the integers of nested
// structs. Both arguments are pointers.
func AddCounts[T any](to, from *T) {
	addCounts(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

func addCounts(to, from reflect.Value) {
	for i := range to.NumField() {
		if f := to.Field(i); f.Kind() == reflect.Struct {
			addCounts(f, from.Field(i))
		} else {
			f.SetInt(f.Int() + from.Field(i).Int())
		}
	}
}
