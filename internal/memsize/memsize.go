// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memsize estimates how much memory a value keeps alive, for budgets of caches whose
// entries are as large as users make them.
//
//	value ---- its fields ---- what pointers, strings, slices, maps and interfaces refer to, in turn
//
// What is referred to twice counts twice, and so does what others keep alive anyway: the estimate
// is what would be left if everybody else dropped it. It costs time in proportion to the number of
// fields, so callers remember it.
package memsize

import (
	"math/bits"
	"reflect"
)

// Of returns the bytes that a value takes, with everything that it refers to. The value must not
// refer to itself. Functions and channels count as pointers to nothing.
func Of[T any](value *T) int {
	v := reflect.ValueOf(value).Elem()
	return allocated(v.Type().Size()) + referred(v)
}

// referred returns the bytes of what a value refers to, without its own.
func referred(v reflect.Value) int {
	switch v.Kind() {
	case reflect.String:
		return allocated(uintptr(v.Len()))
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return allocated(v.Elem().Type().Size()) + referred(v.Elem())
	case reflect.Slice:
		return allocated(uintptr(v.Cap())*v.Type().Elem().Size()) + referredByElements(v)
	case reflect.Array:
		return referredByElements(v)
	case reflect.Struct:
		n := 0
		for i := range v.NumField() {
			n += referred(v.Field(i))
		}
		return n
	case reflect.Map:
		return referredByMap(v)
	default:
		return 0
	}
}

func referredByElements(v reflect.Value) int {
	if refersToNothing(v.Type().Elem()) {
		return 0
	}
	n := 0
	for i := range v.Len() {
		n += referred(v.Index(i))
	}
	return n
}

// mapBytes is the size of an empty map.
const mapBytes = 48

func referredByMap(v reflect.Value) int {
	if v.IsNil() {
		return 0
	}
	// Maps have 8 slots, or more in powers of 2, of which 7/8 are in use.
	slots := 8
	if n := v.Len(); n > slots {
		slots = 1 << bits.Len(uint(n*8/7))
	}
	key, elem := v.Type().Key(), v.Type().Elem()
	slot := int(key.Size()+elem.Size()) + 1 // a byte of control
	if elem.Size() == 0 {
		slot += key.Align() // in Go, nothing at the end of a struct takes room
	}
	n := mapBytes + slots*slot
	if refersToNothing(key) && refersToNothing(elem) {
		return n
	}
	for each := v.MapRange(); each.Next(); {
		n += referred(each.Key()) + referred(each.Value())
	}
	return n
}

// refersToNothing reports whether values of a type are numbers.
func refersToNothing(t reflect.Type) bool {
	return t.Kind() <= reflect.Complex128 || t.Kind() == reflect.Struct && t.NumField() == 0
}

// allocated rounds up to what the allocator hands out for a size.
func allocated(size uintptr) int { return int(size+7) &^ 7 }
