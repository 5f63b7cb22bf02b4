// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mapkey encodes values as keys of maps, so that parts of objects can be compared.
package mapkey

import (
	"encoding/binary"
	"slices"
)

// Writer writes keys into a buffer that it uses again. Two sequences of values of the same types
// have the same key only if they are equal, because the length precedes every value of variable
// length.
//
// It is not safe for concurrent use.
type Writer struct {
	buf   []byte
	names []string
}

// Reset begins a key.
func (w *Writer) Reset() { w.buf = w.buf[:0] }

// Bytes returns the key. It is valid until the next call of Reset.
func (w *Writer) Bytes() []byte { return w.buf }

// Len returns the length of the key so far.
func (w *Writer) Len() int { return len(w.buf) }

// Number writes a number.
func (w *Writer) Number(n int64) { w.buf = binary.AppendVarint(w.buf, n) }

// Flag writes a boolean.
func (w *Writer) Flag(b bool) {
	if b {
		w.buf = append(w.buf, 1)
	} else {
		w.buf = append(w.buf, 0)
	}
}

// Text writes a string.
func (w *Writer) Text(s string) {
	w.Number(int64(len(s)))
	w.buf = append(w.buf, s...)
}

// Map writes the entries of a map in order. If want is not nil, it writes only the entries for
// whose names want returns true.
func (w *Writer) Map(m map[string]string, want func(name string) bool) {
	names := Sorted(w, m, want)
	w.Number(int64(len(names)))
	for _, name := range names {
		w.Text(name)
		w.Text(m[name])
	}
}

// Sorted returns the names in a map for which want returns true, or all if want is nil, in order.
// The result is valid until the next call of Sorted or Map.
func Sorted[K ~string, V any](w *Writer, m map[K]V, want func(name string) bool) []string {
	clear(w.names) // frees the strings of the previous map
	w.names = w.names[:0]
	for name := range m {
		if want == nil || want(string(name)) {
			w.names = append(w.names, string(name))
		}
	}
	slices.Sort(w.names)
	return w.names
}

// Message is a part of an API object. The types of k8s.io/api implement it in generated protobuf
// code.
type Message interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// Message writes a message, with the entries of its maps in order. It returns false if the message
// cannot be encoded; the key is then unusable.
func (w *Writer) Message(m Message) bool {
	size := m.Size()
	w.Number(int64(size))
	start := len(w.buf)
	w.buf = slices.Grow(w.buf, size)[:start+size]
	n, err := m.MarshalToSizedBuffer(w.buf[start:])
	return err == nil && n == size
}
