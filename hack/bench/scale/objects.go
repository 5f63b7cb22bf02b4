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

// objects are the stores of the informers of nodes and pods.
type objects struct{ nodes, pods toolscache.Indexer }

// newStore returns a store like that of an informer.
func newStore() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc,
		toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
}

// informersOf returns the empty stores and the transform to apply to an object before it is stored.
// Objects are encoded and decoded as between API server and informer, so that no two of them share
// memory, and then transformed as livesched's informers do it. kube-scheduler's informers only drop
// managed fields, and these objects have none.
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

// protobuf has the encoding methods of the generated types.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// keep makes the object to a copy of from with memory of its own, and adds it to a store.
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
