// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package mapkey

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// reader decodes a key. Values that can be decoded from a key do not share it with other values.
type reader struct{ left []byte }

func (r *reader) number() int64 {
	n, size := binary.Varint(r.left)
	r.left = r.left[size:]
	return n
}

func (r *reader) flag() bool {
	b := r.left[0] == 1
	r.left = r.left[1:]
	return b
}

func (r *reader) text() string {
	n := r.number()
	s := string(r.left[:n])
	r.left = r.left[n:]
	return s
}

func (r *reader) entries() (names, values []string) {
	for range r.number() {
		names, values = append(names, r.text()), append(values, r.text())
	}
	return names, values
}

func TestKeysCanBeDecodedSoThatDifferentValuesHaveDifferentKeys(t *testing.T) {
	const seed = 20261121
	random := rand.New(rand.NewPCG(seed, 0))
	text := func() string { return strings.Repeat(string(rune('a'+random.IntN(3))), random.IntN(300)) }
	var w Writer
	for range 2000 {
		w.Reset()
		var want []string
		var kinds []int
		for range random.IntN(8) {
			kind := random.IntN(5)
			kinds = append(kinds, kind)
			switch kind {
			case 0:
				n := random.Int64() - random.Int64()
				w.Number(n)
				want = append(want, fmt.Sprint(n))
			case 1:
				b := random.IntN(2) == 0
				w.Flag(b)
				want = append(want, fmt.Sprint(b))
			case 2:
				s := text()
				w.Text(s)
				want = append(want, s)
			case 3:
				m := map[string]string{}
				for range random.IntN(5) {
					m[text()] = text()
				}
				w.Map(m, nil)
				want = append(want, fmt.Sprint(m))
			case 4:
				m := &corev1.Toleration{Key: text(), Value: text()}
				if !w.Message(m) {
					t.Fatal("the message was not written")
				}
				want = append(want, m.String())
			}
		}
		r := reader{left: slices.Clone(w.Bytes())}
		var got []string
		for _, kind := range kinds {
			switch kind {
			case 0:
				got = append(got, fmt.Sprint(r.number()))
			case 1:
				got = append(got, fmt.Sprint(r.flag()))
			case 2:
				got = append(got, r.text())
			case 3:
				names, values := r.entries()
				m := map[string]string{}
				for i, name := range names {
					m[name] = values[i]
				}
				if !slices.IsSorted(names) {
					t.Fatalf("the entries are not in order: %v", names)
				}
				got = append(got, fmt.Sprint(m))
			case 4:
				var m corev1.Toleration
				if err := m.Unmarshal([]byte(r.text())); err != nil {
					t.Fatal(err)
				}
				got = append(got, m.String())
			}
		}
		if !slices.Equal(got, want) || len(r.left) > 0 {
			t.Fatalf("seed %d: got %v, want %v, %d bytes left", seed, got, want, len(r.left))
		}
	}
}

func TestOnlyTheWantedEntriesOfAMapAreWritten(t *testing.T) {
	var w, want Writer
	w.Map(map[string]string{"a": "1", "b": "2", "c": "3"}, func(name string) bool { return name != "b" })
	want.Map(map[string]string{"c": "3", "a": "1"}, nil)
	if !slices.Equal(w.Bytes(), want.Bytes()) {
		t.Errorf("got %q, want %q", w.Bytes(), want.Bytes())
	}
}

// broken is a message that cannot be encoded, or whose encoding does not have the size 3.
type broken struct {
	written int
	err     error
}

func (broken) Size() int                                      { return 3 }
func (b broken) MarshalToSizedBuffer(buf []byte) (int, error) { return b.written, b.err }

func TestAMessageThatCannotBeEncodedIsReported(t *testing.T) {
	for _, test := range []struct {
		message broken
		want    bool
	}{
		{broken{written: 3}, true},
		{broken{written: 2}, false},
		{broken{written: 3, err: errors.New("no")}, false},
	} {
		if got := new(Writer).Message(test.message); got != test.want {
			t.Errorf("%+v: %v", test.message, got)
		}
	}
}

func TestFurtherKeysDoNotAllocate(t *testing.T) {
	var w Writer
	labels, toleration := map[string]string{"app": "a", "tier": "b", "zone": "c"},
		&corev1.Toleration{Key: "k", Value: "v"}
	has := func(name string) bool { return name != "zone" }
	if n := testing.AllocsPerRun(100, func() {
		w.Reset()
		w.Text("a")
		w.Map(labels, has)
		w.Message(toleration)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
