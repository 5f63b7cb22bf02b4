// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/interning"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// objects are what the informers of nodes and pods keep.
type objects struct{ nodes, pods toolscache.Indexer }

// newStore returns a store as an informer has it.
func newStore() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc,
		toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
}

// informersOf returns the stores, empty, and what is done to an object before it is kept. Objects
// are encoded and decoded as between API server and informer, so that no two of them have any
// memory in common, and then treated as livesched's informers treat them. kube-scheduler's only
// drop managed fields, of which there are none here.
func (m *measurement) informersOf() (*objects, toolscache.TransformFunc) {
	transform := interning.NewTransform(m.trim)
	if m.contender == decidebench.KubeScheduler || m.contender == decidebench.KubeSchedulerAll {
		transform = func(obj any) (any, error) { return obj, nil }
	}
	return &objects{nodes: newStore(), pods: newStore()}, transform
}

func (m *measurement) loadNodes(o *objects, transform toolscache.TransformFunc) error {
	for i := range m.nodes {
		if err := keep(o.nodes, workload.RunNode(workload.Node(i), i), &corev1.Node{}, transform); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) loadPods(o *objects, transform toolscache.TransformFunc) error {
	random := rand.New(rand.NewPCG(1, uint64(m.nodes)))
	from := m.podsOf(m.bound)
	for i := range m.nodes * m.podsPerNode {
		pod := workload.Run(from.Pod(i), i, workload.NodeName(random.IntN(m.nodes)))
		if err := keep(o.pods, pod, &corev1.Pod{}, transform); err != nil {
			return err
		}
	}
	return nil
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

// keep makes to a copy of from with memory of its own, and puts it into a store.
func keep(store toolscache.Indexer, from, to protobuf, transform toolscache.TransformFunc) error {
	bytes, err := from.Marshal()
	if err != nil {
		return err
	}
	if err := to.Unmarshal(bytes); err != nil {
		return err
	}
	obj, err := transform(to)
	if err != nil {
		return err
	}
	return store.Add(obj)
}
