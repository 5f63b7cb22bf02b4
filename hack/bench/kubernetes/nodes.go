// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
)

func (o *createNodes) run(ctx context.Context, e *executor, index int) error {
	err := e.each(ctx, o.Count, func(ctx context.Context, i int) error {
		node, err := o.node(e, index, i)
		if err != nil {
			return err
		}
		return retry(ctx, func() error {
			created := node.DeepCopy()
			if created.Name == "" {
				// Of five characters, as in a name that the API server generates, two of 5,000
				// would probably be the same.
				created.Name = node.GenerateName + rand.String(10)
			}
			if created.Labels == nil {
				created.Labels = map[string]string{}
			}
			created.Labels[corev1.LabelHostname] = created.Name
			_, err := e.client.CoreV1().Nodes().Create(ctx, created, metav1.CreateOptions{})
			return err
		})
	})
	if err != nil {
		return err
	}
	if o.strategy() == nil && e.declaredFeatures == 0 {
		e.nextNode += o.Count
		return nil
	}
	nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	first := e.nextNode
	e.nextNode += o.Count
	if err := o.prepare(ctx, e, nodes.Items[first:first+o.Count]); err != nil {
		return err
	}
	return e.declareFeatures(ctx, nodes.Items)
}

func (o *createNodes) node(e *executor, index, i int) (*corev1.Node, error) {
	if o.NodeTemplatePath == nil {
		return standardNode(fmt.Sprintf("node-%d-", index)), nil
	}
	node := &corev1.Node{}
	return node, e.templates.render(*o.NodeTemplatePath, o.TemplateParams, i, o.Count, node)
}

// strategy is how to change a node after its creation.
type strategy interface {
	// patch returns the patch of the i-th node.
	patch(i int) any
	// csiNode returns the CSINode that the node needs, or nil.
	csiNode(node string) *storagev1.CSINode
}

func (o *createNodes) strategy() strategy {
	switch {
	case o.NodeAllocatableStrategy != nil:
		return o.NodeAllocatableStrategy
	case o.LabelNodePrepareStrategy != nil:
		return o.LabelNodePrepareStrategy
	case o.UniqueNodeLabelStrategy != nil:
		return o.UniqueNodeLabelStrategy
	}
	return nil
}

func (o *createNodes) prepare(ctx context.Context, e *executor, nodes []corev1.Node) error {
	s := o.strategy()
	if s == nil {
		return nil
	}
	return e.each(ctx, len(nodes), func(ctx context.Context, i int) error {
		name := nodes[i].Name
		patch, err := json.Marshal(s.patch(i))
		if err != nil {
			return err
		}
		err = retry(ctx, func() error {
			_, err := e.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
		if err != nil {
			return err
		}
		csiNode := s.csiNode(name)
		if csiNode == nil {
			return nil
		}
		return retry(ctx, func() error {
			_, err := e.client.StorageV1().CSINodes().Create(ctx, csiNode, metav1.CreateOptions{})
			return err
		})
	})
}

func (s *allocatableStrategy) patch(int) any {
	return map[string]any{"status": map[string]any{"allocatable": s.NodeAllocatable}}
}

func (s *allocatableStrategy) csiNode(node string) *storagev1.CSINode {
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name:        node,
		Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: strings.Join(s.MigratedPlugins, ",")},
	}}
	csiNode.Spec.Drivers = []storagev1.CSINodeDriver{}
	for driver, allocatable := range s.CSINodeAllocatable {
		csiNode.Spec.Drivers = append(csiNode.Spec.Drivers,
			storagev1.CSINodeDriver{Name: driver, NodeID: node, Allocatable: allocatable})
	}
	return csiNode
}

func (s *labelStrategy) patch(i int) any {
	return labelPatch(s.LabelKey, s.LabelValues[i%len(s.LabelValues)])
}

func (*labelStrategy) csiNode(string) *storagev1.CSINode { return nil }

func (s *uniqueLabelStrategy) patch(int) any { return labelPatch(s.LabelKey, string(uuid.NewUUID())) }

func (*uniqueLabelStrategy) csiNode(string) *storagev1.CSINode { return nil }

func labelPatch(key, value string) any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}}
}

// declareFeatures makes all nodes declare features, as the program of the topic
// nodedeclaredfeatures does.
func (e *executor) declareFeatures(ctx context.Context, nodes []corev1.Node) error {
	if e.declaredFeatures == 0 {
		return nil
	}
	names := make([]string, e.declaredFeatures)
	for i := range names {
		names[i] = fmt.Sprintf("Feature%d", i+1)
	}
	slices.Sort(names) // the API server takes no others
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"declaredFeatures": names}})
	if err != nil {
		return err
	}
	return e.each(ctx, len(nodes), func(ctx context.Context, i int) error {
		_, err := e.client.CoreV1().Nodes().
			Patch(ctx, nodes[i].Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func (o *createNamespaces) run(ctx context.Context, e *executor, _ int) error {
	base := &corev1.Namespace{}
	if o.NamespaceTemplatePath != nil {
		if err := e.templates.plain(*o.NamespaceTemplatePath, base); err != nil {
			return err
		}
	}
	for i := range o.Count {
		ns := base.DeepCopy()
		ns.Name = fmt.Sprintf("%s-%d", o.Prefix, i)
		err := retry(ctx, func() error {
			_, err := e.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		if _, ok := e.expected[ns.Name]; !ok {
			e.expected[ns.Name] = 0
		}
	}
	return nil
}
