// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// hostilePodsVariable has the number of pods whose latencies are measured: see
// docs/operate/tuning.md.
const hostilePodsVariable = "LIVESCHED_TEST_HOSTILE_PODS"

func hostilePods() int {
	value := os.Getenv(hostilePodsVariable)
	if value == "" {
		return 20
	}
	n, err := strconv.Atoi(value)
	Expect(err).NotTo(HaveOccurred(), hostilePodsVariable)
	return n
}

// latencies creates n pods of the profile "others", one after the other, and returns how long each
// takes until the watch of a client has seen it bound. It calls beside before each.
func latencies(ctx context.Context, prefix string, n int, beside func(name string)) (all []time.Duration) {
	GinkgoHelper()
	clients, err := kubernetes.NewForConfig(Cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		beside(name)
		events, err := clients.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
		})
		Expect(err).NotTo(HaveOccurred())
		begun := time.Now()
		pod := CreatePod(ctx, "others", name, CPU("1m"))
		Expect(pod.Namespace).To(Equal(metav1.NamespaceDefault))
		awaitBound(ctx, events)
		all = append(all, time.Since(begun))
		events.Stop()
		Expect(K8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed()) // for the next ones
	}
	return all
}

func awaitBound(ctx context.Context, events watch.Interface) {
	GinkgoHelper()
	for {
		select {
		case event, open := <-events.ResultChan():
			Expect(open).To(BeTrue(), "the watch is to last")
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
				return
			}
		case <-ctx.Done():
			Expect(context.Cause(ctx)).NotTo(HaveOccurred(), "the pod is to be bound")
		}
	}
}

// summary returns the median, the 99th percentile and the longest.
func summary(all []time.Duration) string {
	slices.Sort(all)
	at := func(share float64) time.Duration {
		return all[int(share*float64(len(all)-1))].Round(time.Millisecond / 10)
	}
	return fmt.Sprintf("%v / %v / %v", at(0.5), at(0.99), at(1))
}
