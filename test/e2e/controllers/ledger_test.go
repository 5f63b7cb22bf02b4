// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// ledger watches the pods of a spec and records violations, even those that last only a moment:
// more on a node than it has room for, a pod that changes its node, fewer ready pods than a budget
// allows. The watch delivers the changes in order.
type ledger struct {
	mu sync.Mutex // guards the rest
	// pods are those that take room: bound and not finished.
	pods map[types.UID]*corev1.Pod
	// allocatable and taken are thousandths of a CPU, per node. Nodes that are not in allocatable
	// are not checked.
	allocatable, taken map[string]int64
	ready              map[string]int // number of ready pods, by their label app
	fewest             map[string]int // the lowest number of ready pods since watchReady
	// appeared and wereReady have the names of pods in the order in which they first appeared, and
	// were first ready.
	appeared, wereReady []string
	wrong               []string
}

// keepLedger watches the pods of the spec's namespace until the end of the spec.
func keepLedger(ctx context.Context) *ledger {
	GinkgoHelper()
	l := &ledger{pods: map[types.UID]*corev1.Pod{}, allocatable: map[string]int64{}, taken: map[string]int64{}, ready: map[string]int{}, fewest: map[string]int{}}
	var list corev1.NodeList
	Expect(k8s.List(ctx, &list)).To(Succeed())
	for _, node := range list.Items {
		l.allocatable[node.Name] = node.Status.Allocatable.Cpu().MilliValue()
	}
	informer := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "pods", namespace, fields.Everything()), &corev1.Pod{}, 0, nil)
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.see(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { l.see(obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			l.forget(obj.(*corev1.Pod).UID)
		},
	})
	Expect(err).NotTo(HaveOccurred())
	stop := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() { informer.Run(stop) })
	DeferCleanup(func() {
		close(stop)
		following.Wait()
	})
	Eventually(handler.HasSynced).WithContext(ctx).Should(BeTrue())
	return l
}

func (l *ledger) see(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.pods[pod.UID]
	if before == nil {
		l.appeared = append(l.appeared, pod.Name)
	} else if before.Spec.NodeName != "" && before.Spec.NodeName != pod.Spec.NodeName {
		l.wrong = append(l.wrong, fmt.Sprintf("pod %s moved from %s to %s", pod.Name, before.Spec.NodeName, pod.Spec.NodeName))
	}
	if podutil.IsPodReady(pod) && (before == nil || !podutil.IsPodReady(before)) {
		l.wereReady = append(l.wereReady, pod.Name)
	}
	l.lockedCount(before, -1)
	l.pods[pod.UID] = pod
	l.lockedCount(pod, 1)
	l.lockedCheck(pod)
}

func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pod := l.pods[uid]
	l.lockedCount(pod, -1)
	delete(l.pods, uid)
	l.lockedCheck(pod)
}

func (l *ledger) lockedCount(pod *corev1.Pod, sign int) {
	if pod == nil {
		return
	}
	if pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod) {
		requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
		l.taken[pod.Spec.NodeName] += int64(sign) * requests.Cpu().MilliValue()
	}
	if podutil.IsPodReady(pod) {
		l.ready[pod.Labels["app"]] += sign
	}
}

func (l *ledger) lockedCheck(pod *corev1.Pod) {
	node := pod.Spec.NodeName
	if room, known := l.allocatable[node]; known && l.taken[node] > room {
		l.wrong = append(l.wrong, fmt.Sprintf("node %s has %dm CPU and gave away %dm with pod %s", node, room, l.taken[node], pod.Name))
	}
	app := pod.Labels["app"]
	if fewest, watched := l.fewest[app]; watched {
		l.fewest[app] = min(fewest, l.ready[app])
	}
}

// watchReady starts to record the lowest number of ready pods of an app. The pods must not change
// until it returns.
func (l *ledger) watchReady(ctx context.Context, app string) {
	GinkgoHelper()
	l.catchUp(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fewest[app] = l.ready[app]
}

// fewestReady returns the lowest number of ready pods of an app since watchReady.
func (l *ledger) fewestReady(app string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fewest[app]
}

// order returns the order in which pods appeared and became ready.
func (l *ledger) order() (appeared, wereReady []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.appeared...), append([]string(nil), l.wereReady...)
}

// catchUp waits until the watch has caught up with the API server. The pods must not change any
// more.
func (l *ledger) catchUp(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		now := map[types.UID]string{}
		for _, pod := range podsOf(ctx) {
			now[pod.UID] = pod.ResourceVersion
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		g.Expect(l.pods).To(HaveLen(len(now)))
		for uid, version := range now {
			g.Expect(l.pods[uid]).To(HaveField("ResourceVersion", version))
		}
	}).WithContext(ctx).Should(Succeed())
}

func (l *ledger) expectRight(ctx context.Context) {
	GinkgoHelper()
	l.catchUp(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	Expect(l.wrong).To(BeEmpty())
}
