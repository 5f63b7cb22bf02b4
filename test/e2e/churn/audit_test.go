// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// audit knows which pods livesched has bound, from the API server's answers.
type audit struct {
	mu    sync.Mutex // guards what follows
	bound map[types.UID]string
	twice []string
}

func (a *audit) note(b *corev1.Binding, code int) {
	if code != http.StatusCreated && code != http.StatusOK {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if node, known := a.bound[b.UID]; known {
		a.twice = append(a.twice,
			fmt.Sprintf("pod %s (%s) was bound to %s and to %s", b.Name, b.UID, node, b.Target.Name))
	}
	if a.bound == nil {
		a.bound = map[types.UID]string{}
	}
	a.bound[b.UID] = b.Target.Name
}

func (a *audit) problems() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.twice)
}

// forget drops the records of pods, so that they do not count as livesched's memory.
func (a *audit) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bound = nil
}

// counts counts events by name.
type counts struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func (c *counts) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what] += n
}

func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c.n)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, c.n[what]))
	}
	return strings.Join(parts, ", ")
}
