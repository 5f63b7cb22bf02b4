// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/objects"
)

// Stage starts one scheduler for all specs of an Ordered container, with profiles in YAML by name.
// Starting one for each spec would take most of their time. At the start of each spec, the
// scheduler knows no node and no pod.
func Stage(profiles map[string]string) {
	BeforeAll(func(ctx context.Context) {
		DeferCleanup(func(ctx context.Context) {
			shared = false
			Expect(Cluster.Clear(ctx)).To(Succeed())
		})
		shared = true
		StartProfiles(ctx, profiles)
	})
	BeforeEach(func(ctx context.Context) { ExpectSeen(ctx, 0) })
}

// ExpectSeen waits until the scheduler knows a number of nodes, and all pods that were created or
// deleted until now. It creates a pod that fits nowhere and reads its condition. Pods reach the
// scheduler in the order of their changes, so the scheduler has seen all earlier changes when it
// decides about this pod. Nodes arrive by another watch.
func ExpectSeen(ctx context.Context, nodes int) {
	GinkgoHelper()
	want := fmt.Sprintf("0/%d nodes are available: ", nodes)
	if nodes == 0 {
		want = "no nodes available to schedule pods"
	}
	for probe := 0; ; probe++ {
		pod := CreatePod(ctx, "mine", fmt.Sprintf("probe-%d", probe), Selecting("no-node", "has-this"))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		message := pod.Status.Conditions[0].Message
		Expect(K8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		if strings.HasPrefix(message, want) {
			return
		}
		Expect(probe).To(BeNumerically("<", 1000), "the scheduler says %q", message)
	}
}

// PluginStage is a stage with the plugins of a script, two nodes, and a policy with almost no
// back-off. The plugins requeue a pod that they refused when its labels change.
func PluginStage(profiles map[string]string) *Script {
	s := &Script{}
	content := func(a *Acts) {
		*a = Acts{Events: func(a *Actor) ([]fwk.ClusterEventWithHint, error) {
			return []fwk.ClusterEventWithHint{{
				Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
				QueueingHintFn: func(_ logr.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
					a.Struck(Hint, pod)
					return fwk.Queue, nil
				},
			}}, nil
		}}
	}
	BeforeAll(func(ctx context.Context) {
		s.Perform(content)
		DeferCleanup(func(ctx context.Context) {
			shared = false
			Expect(Cluster.Clear(ctx)).To(Succeed())
		})
		shared = true
		Start(s.Register)
		Create(ctx, QuickRetries())
		for name, spec := range profiles {
			CreateProfile(ctx, name, spec)
		}
	})
	BeforeEach(func(ctx context.Context) {
		ExpectSeen(ctx, 0)
		s.Perform(content)
		s.Forget()
		CreateNodes(ctx, "n1", "n2") // with a single node, no plugin would be called to score
		ExpectSeen(ctx, 2)
	})
	return s
}
