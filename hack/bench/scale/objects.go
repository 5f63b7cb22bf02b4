// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/workload"
)

// objects are what the informers of nodes and pods keep.
type objects struct{ nodes, pods toolscache.Indexer }

// newStore returns a store as an informer has it.
func newStore() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc,
		toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
}

// load fills the stores. Objects are encoded and decoded as between API server and informer, so that no two of them
// have any memory in common, unless strings are to be shared.
func (m *measurement) load() (*objects, error) {
	o := &objects{nodes: newStore(), pods: newStore()}
	for i := range m.nodes {
		node := &corev1.Node{}
		if err := m.decode(workload.Node(i), node); err != nil {
			return nil, err
		}
		if err := o.nodes.Add(node); err != nil {
			return nil, err
		}
	}
	random := rand.New(rand.NewPCG(1, uint64(m.nodes)))
	from := m.podsOf(m.bound)
	for i := range m.nodes * m.podsPerNode {
		pod := &corev1.Pod{}
		if err := m.decode(workload.Run(from.Pod(i), i, workload.NodeName(random.IntN(m.nodes))), pod); err != nil {
			return nil, err
		}
		if err := o.pods.Add(pod); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// podsOf makes pods in as many series as the bound pods have.
func (m *measurement) podsOf(kind string) workload.Pods {
	return workload.Pods{Kind: kind, Nodes: m.nodes, Series: max(1, m.nodes*m.podsPerNode/m.perSeries)}
}

// protobuf is what generated types can do.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// decode makes to a copy of from with memory of its own.
func (m *measurement) decode(from, to protobuf) error {
	if m.share {
		return share(from, to)
	}
	bytes, err := from.Marshal()
	if err != nil {
		return err
	}
	return to.Unmarshal(bytes)
}

// share makes to a copy of from with the same strings.
func share(from, to protobuf) error {
	switch from := from.(type) {
	case *corev1.Node:
		from.DeepCopyInto(to.(*corev1.Node))
	case *corev1.Pod:
		from.DeepCopyInto(to.(*corev1.Pod))
	default:
		return fmt.Errorf("a %T cannot share its strings", from)
	}
	return nil
}
