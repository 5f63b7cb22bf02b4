// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/objects"
)

func TestPodGroups(t *testing.T) {
	framework.OracleGates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
	framework.Run(t, "Groups of pods, on a real API server", func(o *controlplane.Options) { o.WithPodGroups = true })
}

var _ = BeforeEach(func(ctx context.Context) {
	Expect(framework.Cluster.InstallPodGroups(ctx)).To(Succeed()) // does nothing from the second time on
}, NodeTimeout(time.Minute))

var _ = AfterEach(func(ctx context.Context) {
	Expect(framework.K8s.DeleteAllOf(ctx, objects.PodGroup("", 0), client.InNamespace(corev1.NamespaceDefault))).
		To(Succeed())
})

// boundOf returns the number of pods of a group, and how many of them are bound.
func boundOf(ctx context.Context, group string) (pods, bound int) {
	GinkgoHelper()
	var list corev1.PodList
	Expect(framework.K8s.List(ctx, &list, client.InNamespace(corev1.NamespaceDefault),
		client.MatchingLabels{podgroup.Label: group})).To(Succeed())
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			bound++
		}
	}
	return len(list.Items), bound
}

func clientKey(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// setAnnotation changes an annotation of a group, and removes the others.
func setAnnotation(ctx context.Context, group *unstructured.Unstructured, key, value string) {
	GinkgoHelper()
	framework.Update(ctx, group,
		func(group *unstructured.Unstructured) { group.SetAnnotations(map[string]string{key: value}) })
}

// setMinMember changes how many pods a group needs.
func setMinMember(ctx context.Context, group *unstructured.Unstructured, n int64) {
	GinkgoHelper()
	framework.Update(ctx, group, func(group *unstructured.Unstructured) {
		Expect(unstructured.SetNestedField(group.Object, n, "spec", "minMember")).To(Succeed())
	})
}
