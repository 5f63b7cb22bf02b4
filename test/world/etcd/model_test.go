// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// model is an etcd that keeps all keys of every revision.
type model struct {
	states    []map[string]entry // by revision; the first one that exists is 1
	changes   []change           // by revision
	compacted int64
}

// entry is the value of a key, and the revision that wrote it.
type entry struct {
	value   string
	written int64
}

// change is what a revision did to a key. value is empty if it deleted the key.
type change struct {
	revision   int64
	key        string
	value, old string
	created    bool
}

func newModel() *model {
	return &model{states: []map[string]entry{{}, {}}, changes: make([]change, 2), compacted: 1}
}

func (m *model) revision() int64 { return int64(len(m.states) - 1) }

func (m *model) now() map[string]entry { return m.states[m.revision()] }

// write changes a key if its latest revision is the expected one.
func (m *model) write(key, value string, expected int64) bool {
	before, exists := m.now()[key]
	if before.written != expected {
		return false
	}
	if value == "" && !exists {
		return true // deleting nothing is no change
	}
	next := map[string]entry{}
	for k, v := range m.now() {
		next[k] = v
	}
	revision := m.revision() + 1
	next[key] = entry{value, revision}
	if value == "" {
		delete(next, key)
	}
	m.states = append(m.states, next)
	m.changes = append(m.changes, change{revision, key, value, before.value, !exists})
	return true
}

// compact forgets what was before a revision.
func (m *model) compact(revision int64) {
	m.compacted = revision
	m.changes[revision].old = ""
}

// state returns the keys of a revision.
func (m *model) state(revision int64) (map[string]entry, error) {
	switch {
	case revision == 0:
		return m.now(), nil
	case revision > m.revision():
		return nil, rpctypes.ErrFutureRev
	case revision < m.compacted:
		return nil, rpctypes.ErrCompacted
	}
	return m.states[revision], nil
}

// list returns the keys with a prefix, from one on if continued is set, and how many there are
// without a limit.
func (m *model) list(prefix string, o kubernetes.ListOptions) ([]keyValue, int64, error) {
	state, err := m.state(o.Revision)
	if err != nil {
		return nil, 0, err
	}
	var all []keyValue
	for key, e := range state {
		if strings.HasPrefix(key, prefix) && key >= o.Continue {
			all = append(all, keyValue{key, e.value, e.written})
		}
	}
	slices.SortFunc(all, func(a, b keyValue) int { return strings.Compare(a.Key, b.Key) })
	count := int64(len(all))
	if o.Limit > 0 && count > o.Limit {
		all = all[:o.Limit]
	}
	return all, count, nil
}

// since returns the changes of keys with a prefix, from a revision on.
func (m *model) since(prefix string, revision int64) []change {
	var all []change
	for _, c := range m.changes[revision:] {
		if strings.HasPrefix(c.key, prefix) {
			all = append(all, c)
		}
	}
	return all
}

// keyValue is a key as an etcd answers it.
type keyValue struct {
	Key, Value string
	Written    int64
}
