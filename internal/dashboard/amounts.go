// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/words"
)

// order returns the place of a resource in lists: extended resources first, then CPU and memory.
func order(name corev1.ResourceName) int {
	switch {
	case name == corev1.ResourceCPU:
		return 1
	case name == corev1.ResourceMemory:
		return 2
	case name == corev1.ResourcePods:
		return 3
	case strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), "kubernetes.io/"):
		return 0
	}
	return 4
}

// sorted returns the names of resources in the order of lists.
func sorted(names []corev1.ResourceName) []corev1.ResourceName {
	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a, b))
	})
	return names
}

// inBytes reports whether the unit of a resource is the byte.
func inBytes(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || name == corev1.ResourceStorage ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// valueOf returns the quantity of a resource as a number, such as 0.5 of a CPU.
func valueOf(list corev1.ResourceList, name corev1.ResourceName) float64 {
	quantity := list[name]
	return quantity.AsApproximateFloat64()
}

// amount returns a quantity for people, such as "1.5 TiB" of memory.
func amount(name corev1.ResourceName, value float64) string {
	if inBytes(name) {
		return bytesWords(value)
	}
	if value == float64(int64(value)) || value >= 1000 {
		return words.Grouped.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.1f", value)
}

func bytesWords(value float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	unit := 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if value >= 100 || value == float64(int64(value)) {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// requestsWords lists what a pod requests.
func requestsWords(requests corev1.ResourceList) string {
	var texts []string
	for _, name := range sorted(slices.Collect(maps.Keys(requests))) {
		quantity := requests[name]
		if order(name) != 3 && !quantity.IsZero() {
			texts = append(texts, quantity.String()+" "+string(name))
		}
	}
	return cmp.Or(strings.Join(texts, ", "), "nothing")
}
