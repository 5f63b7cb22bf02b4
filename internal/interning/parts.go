// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/mapkey"
)

// This file interns single parts. Each function writes the key of a part and looks it up. A part
// that cannot be encoded stays as it is.

// internConditionLocked interns the strings of a condition of a pod or a node.
func internConditionLocked[T ~string](in *interner, conditionType *T, status *corev1.ConditionStatus,
	reason, message *string) {
	internStringLocked(in, conditionType)
	internStringLocked(in, status)
	internStringLocked(in, reason)
	internStringLocked(in, message)
}

func internStringLocked[T ~string](in *interner, v *T) {
	if *v == "" {
		return
	}
	in.key.Reset()
	in.key.Text(string(*v))
	*v = T(in.strings.getOrPut(in.key.Bytes(), string(*v)))
}

func (in *interner) internMapLocked(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	in.key.Reset()
	in.key.Map(m, nil)
	return in.labels.getOrPut(in.key.Bytes(), m)
}

func (in *interner) internImageNamesLocked(names []string) []string {
	if len(names) == 0 {
		return names
	}
	in.key.Reset()
	for _, name := range names {
		in.key.Text(name)
	}
	if known, ok := in.images.get(in.key.Bytes()); ok {
		return known
	}
	names = clip(names)
	in.images.put(in.key.Bytes(), names)
	return names
}

func (in *interner) internResourcesLocked(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return list
	}
	in.key.Reset()
	if !in.key.Message(&corev1.ResourceRequirements{Limits: list}) {
		return list
	}
	return in.resources.getOrPut(in.key.Bytes(), list)
}

func internMessagesLocked[T any, P interface {
	*T
	mapkey.Message
}](in *interner, memo *memo[[]T], values []T) []T {
	if len(values) == 0 {
		return values
	}
	in.key.Reset()
	for i := range values {
		if !in.key.Message(P(&values[i])) {
			return values
		}
	}
	if known, ok := memo.get(in.key.Bytes()); ok {
		return known
	}
	values = clip(values)
	memo.put(in.key.Bytes(), values)
	return values
}

// clip returns the values in a slice without spare capacity. It copies where [slices.Clip] does
// not, so that the memory is freed: a decoder leaves up to as much spare capacity as the values
// take.
func clip[T any](values []T) []T {
	if cap(values) == len(values) {
		return values
	}
	if len(values) == 0 {
		return nil
	}
	kept := make([]T, len(values))
	copy(kept, values)
	return kept
}
