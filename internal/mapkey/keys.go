// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mapkey writes keys of maps: bytes by which parts of objects can be compared.
package mapkey

import (
	"encoding/binary"
	"slices"
)

// Writer writes keys, one after the other into the same buffer. Two sequences of values of the same
// types give the same key only if they are equal: everything of no fixed length is written with its
// length before it.
//
// It is for one goroutine at a time.
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

// Flag writes a truth value.
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

// Map writes the entries of a map, or of a part of it: those whose names want says, if it is not
// nil.
func (w *Writer) Map(m map[string]string, want func(name string) bool) {
	names := Sorted(w, m, want)
	w.Number(int64(len(names)))
	for _, name := range names {
		w.Text(name)
		w.Text(m[name])
	}
}

// Sorted returns those names of a map in order that want says, all if it is nil. They are valid
// until it is called again, or Map.
func Sorted[K ~string, V any](w *Writer, m map[K]V, want func(name string) bool) []string {
	clear(w.names) // keeps no string of the map before it alive
	w.names = w.names[:0]
	for name := range m {
		if want == nil || want(string(name)) {
			w.names = append(w.names, string(name))
		}
	}
	slices.Sort(w.names)
	return w.names
}

// Message is a part of an object as the API knows it: what the generated protobuf code of
// k8s.io/api can do.
type Message interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// Message writes a message; maps in it are written in order. It is false if the message cannot be
// encoded, and then the key is worth nothing.
func (w *Writer) Message(m Message) bool {
	size := m.Size()
	w.Number(int64(size))
	start := len(w.buf)
	w.buf = slices.Grow(w.buf, size)[:start+size]
	n, err := m.MarshalToSizedBuffer(w.buf[start:])
	return err == nil && n == size
}
