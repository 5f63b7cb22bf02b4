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

	. "github.com/livesched/livesched/test/e2e/framework"
)

// ledger watches the pods of a spec and records violations, however short: a node with more pods
// than fit, and a pod that changes its node. It also counts ready pods. The watch delivers the
// changes in order.
type ledger struct {
	mu sync.Mutex // guards the rest
	// pods are the pods that exist.
	pods map[types.UID]*corev1.Pod
	// allocatable and taken are thousandths of a CPU, by node. Nodes without an entry in
	// allocatable are not checked.
	allocatable, taken map[string]int64
	ready              map[string]int // number of ready pods, by their label app
	fewest             map[string]int // the lowest number of ready pods since watchReady
	// appeared and wereReady are the names of pods in the order in which they were created and
	// became ready.
	appeared, wereReady []string
	wrong               []string
}

// startLedger watches the pods of the spec's namespace until the end of the spec. It checks the
// room of the nodes that exist now.
func startLedger(ctx context.Context) *ledger {
	GinkgoHelper()
	l := &ledger{pods: map[types.UID]*corev1.Pod{}, allocatable: map[string]int64{}, taken: map[string]int64{},
		ready: map[string]int{}, fewest: map[string]int{}}
	var list corev1.NodeList
	Expect(K8s.List(ctx, &list)).To(Succeed())
	for _, node := range list.Items {
		l.allocatable[node.Name] = node.Status.Allocatable.Cpu().MilliValue()
	}
	informer := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "pods",
		namespace, fields.Everything()), &corev1.Pod{}, 0, nil)
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
		l.wrong = append(l.wrong,
			fmt.Sprintf("pod %s moved from %s to %s", pod.Name, before.Spec.NodeName, pod.Spec.NodeName))
	}
	if podutil.IsPodReady(pod) && (before == nil || !podutil.IsPodReady(before)) {
		l.wereReady = append(l.wereReady, pod.Name)
	}
	l.countLocked(before, -1)
	l.pods[pod.UID] = pod
	l.countLocked(pod, 1)
	l.checkLocked(pod)
}

func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pod := l.pods[uid]
	l.countLocked(pod, -1)
	delete(l.pods, uid)
	l.checkLocked(pod)
}

func (l *ledger) countLocked(pod *corev1.Pod, sign int) {
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

func (l *ledger) checkLocked(pod *corev1.Pod) {
	node := pod.Spec.NodeName
	if room, known := l.allocatable[node]; known && l.taken[node] > room {
		l.wrong = append(l.wrong, fmt.Sprintf("node %s has %dm CPU, but its pods request %dm with pod %s", node, room,
			l.taken[node], pod.Name))
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

// catchUp waits until the watch has delivered all changes of the pods. The pods must not change
// until it returns.
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

// expectRight checks that there was no violation. The pods must not change until it returns.
func (l *ledger) expectRight(ctx context.Context) {
	GinkgoHelper()
	l.catchUp(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	Expect(l.wrong).To(BeEmpty())
}
