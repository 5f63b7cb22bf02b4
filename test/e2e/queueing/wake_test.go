// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/queue"
	. "github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/testcluster"
)

// wake describes pods that a plugin rejects, and a change: some of the pods must be retried after
// it, others must not. The tables of the wake_*_test.go files consist of these; the scenarios are
// those of kube-scheduler's test/integration/scheduler/queueing and similar ones.
type wake struct {
	// plugin rejects the pods. If alone is set, the profile has no other plugin that could.
	plugin string
	alone  bool
	// also are further plugins that reject the pods.
	also []string
	// given exists beforehand: the objects are created as they are.
	given []client.Object
	// woken are retried, asleep are not. Pods without a scheduler get the spec's.
	woken, asleep []*corev1.Pod
	// gated means that the pods are rejected before they are queued.
	gated bool
	// happens makes the change, and event is livesched's event for it.
	happens func(ctx context.Context)
	event   fwk.ClusterEvent
	// server is the oldest API server that accepts the change with its default feature gates. Empty
	// means any.
	server string
}

// The pod events for which fwk has no names.
func assignedPod(action fwk.ActionType) fwk.ClusterEvent {
	return fwk.ClusterEvent{Resource: schedframework.EventAssignedPodAdd.Resource, ActionType: action}
}

func of(resource fwk.EventResource, action fwk.ActionType) fwk.ClusterEvent {
	return fwk.ClusterEvent{Resource: resource, ActionType: action}
}

// podItself is the event of a change of the rejected pod itself.
var podItself = schedframework.EventUnscheduledPodUpdate

// wakers runs the specs of one table, all with one livesched, or with kube-scheduler; see
// framework.Oracle.
type wakers struct{ run *testcluster.Running }

// start is for BeforeAll.
func (w *wakers) start() {
	GinkgoHelper()
	if program := os.Getenv(Oracle); program != "" {
		StartOracle(program, testcluster.KubeScheduler{Profiles: aloneProfiles()})
		return
	}
	w.run = Start()
}

// loners are the plugins that some specs need alone in a profile.
var loners = []string{
	"DynamicResources", "InterPodAffinity", "NodeAffinity", "NodePorts", "NodeResourcesFit", "NodeUnschedulable",
	"NodeVolumeLimits",
	"PodTopologySpread", "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
}

// alone is the spec of a profile in which only one plugin rejects pods.
func alone(plugin string) string {
	return fmt.Sprintf("plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: "+
		"DefaultBinder}, {name: %s}]}}", plugin)
}

func aloneProfiles() map[string]string {
	profiles := map[string]string{"mine": ""}
	for _, plugin := range loners {
		profiles[schedulerNameOf(plugin)] = alone(plugin)
	}
	return profiles
}

func schedulerNameOf(plugin string) string { return strings.ToLower(plugin) }

// check is the body of a table.
func (w *wakers) check(ctx context.Context, c wake) {
	GinkgoHelper()
	if c.server != "" {
		NeedsServer(c.server, "it refuses the change, or drops a field of the object")
	}
	name, spec := "mine", ""
	if c.alone {
		Expect(loners).To(ContainElement(c.plugin))
		name, spec = schedulerNameOf(c.plugin), alone(c.plugin)
	}
	for _, object := range c.given {
		given(ctx, object.DeepCopyObject().(client.Object))
	}
	woken, asleep := createPods(ctx, name, c.woken), createPods(ctx, name, c.asleep)
	pods := slices.Concat(woken, asleep)
	if w.run != nil {
		// The profile comes last, so that no event of the given objects follows the rejection of
		// the pods.
		w.expectCaughtUp(ctx)
		CreateProfile(ctx, name, spec)
	}
	before := map[types.UID]int{}
	for _, pod := range pods {
		before[pod.UID] = w.expectRefused(ctx, pod, &c)
	}

	handled := w.handled(c.event)
	c.happens(ctx)
	w.expectHandled(ctx, &c, handled, pods)
	for _, pod := range woken {
		Eventually(w.tried).WithArguments(ctx, pod).Should(BeNumerically(">", before[pod.UID]),
			"%s is to be tried again", pod.Name)
	}
	w.expectAsleep(ctx, asleep, before)
}

// given creates an object until the end of the spec, and removes its finalizers.
func given(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Create(ctx, object)
	DeferCleanup(func(ctx context.Context) {
		// A pod that has just been woken may still write its claim, which gets a finalizer and a
		// device by that. No controller removes these here, and later specs would lack the device.
		Eventually(func(g Gomega) {
			err := K8s.Get(ctx, client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			if len(object.GetFinalizers()) != 0 {
				object.SetFinalizers(nil)
				g.Expect(K8s.Update(ctx, object)).To(Succeed())
			}
			g.Expect(client.IgnoreNotFound(K8s.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
			if _, claim := object.(*resourcev1.ResourceClaim); claim {
				err := K8s.Get(ctx, client.ObjectKeyFromObject(object), object)
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the claim %s is still there", object.GetName())
			}
		}).WithContext(ctx).Should(Succeed())
	})
}

func createPods(ctx context.Context, schedulerName string, pods []*corev1.Pod) []*corev1.Pod {
	GinkgoHelper()
	var created []*corev1.Pod
	for _, pod := range pods {
		pod = pod.DeepCopy()
		pod.Spec.SchedulerName = schedulerName
		Create(ctx, pod)
		created = append(created, pod)
	}
	return created
}

// expectCleared waits until livesched knows that the profiles and policies of the previous spec are
// gone, which would otherwise affect this one, and until no pod is being bound any more:
// DynamicResources would give the device of a deleted pod to the next claim with that name.
func (w *wakers) expectCleared(ctx context.Context) {
	GinkgoHelper()
	if w.run == nil {
		return
	}
	Eventually(func(g Gomega) {
		var policies v1alpha1.SchedulingPolicyList
		g.Expect(w.run.GetCache().List(ctx, &policies)).To(Succeed())
		g.Expect(policies.Items).To(BeEmpty())
		g.Expect(w.run.Scheduler.Store().Alive()).To(BeZero())
	}).WithContext(ctx).Should(Succeed())
}

// expectCaughtUp waits until the informers hold what the API server holds.
func (w *wakers) expectCaughtUp(ctx context.Context) {
	GinkgoHelper()
	for _, list := range []func() client.ObjectList{
		func() client.ObjectList { return &corev1.NodeList{} },
		func() client.ObjectList { return &corev1.PodList{} },
		func() client.ObjectList { return &corev1.NamespaceList{} },
		func() client.ObjectList { return &corev1.PersistentVolumeList{} },
		func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
		func() client.ObjectList { return &storagev1.StorageClassList{} },
		func() client.ObjectList { return &storagev1.CSINodeList{} },
		func() client.ObjectList { return &storagev1.CSIDriverList{} },
		func() client.ObjectList { return &storagev1.CSIStorageCapacityList{} },
		func() client.ObjectList { return &storagev1.VolumeAttachmentList{} },
		func() client.ObjectList { return &resourcev1.ResourceClaimList{} },
		func() client.ObjectList { return &resourcev1.ResourceSliceList{} },
		func() client.ObjectList { return &resourcev1.DeviceClassList{} },
	} {
		Eventually(func(g Gomega) {
			live, cached := list(), list()
			g.Expect(K8s.List(ctx, live)).To(Succeed())
			g.Expect(w.run.GetCache().List(ctx, cached)).To(Succeed())
			g.Expect(versions(cached)).To(Equal(versions(live)))
		}).WithContext(ctx).Should(Succeed())
	}
}

func versions(list client.ObjectList) map[types.UID]string {
	all := map[types.UID]string{}
	Expect(meta.EachListItem(list, func(object runtime.Object) error {
		o := object.(client.Object)
		all[o.GetUID()] = o.GetResourceVersion()
		return nil
	})).To(Succeed())
	return all
}

// expectRefused waits until the expected plugins have rejected a pod, and returns the number of its
// attempts.
func (w *wakers) expectRefused(ctx context.Context, pod *corev1.Pod, c *wake) int {
	GinkgoHelper()
	if w.run == nil {
		return w.expectRefusedByOracle(ctx, pod, c)
	}
	place, refusedBy := queue.Unschedulable, append([]string{c.plugin}, c.also...)
	if c.gated {
		place = queue.Gated
	}
	slices.Sort(refusedBy)
	var state queue.PodState
	Eventually(func(g Gomega) {
		state = w.state(pod)
		g.Expect(state.Place).To(Equal(place))
		g.Expect(slices.Compact(
			slices.Sorted(slices.Values(append(state.PendingPlugins, state.UnschedulablePlugins...))))).
			To(Equal(refusedBy))
	}).Should(Succeed(), "%s is to be refused", pod.Name)
	return state.Attempts
}

func (w *wakers) state(pod *corev1.Pod) queue.PodState {
	state, _ := w.run.Parts().Queue.Get(pod.UID)
	return state
}

// expectHandled waits until livesched has handled the change.
func (w *wakers) expectHandled(ctx context.Context, c *wake, before uint64, pods []*corev1.Pod) {
	GinkgoHelper()
	switch {
	case w.run == nil:
	case c.event == podItself:
		for _, pod := range pods {
			// A pod that was woken is bound soon, or in its next attempt. The condition of its
			// rejection may be written only now, which makes another version.
			Eventually(func(g Gomega) {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				state := w.state(pod)
				g.Expect(state.Pod == nil || state.Place == queue.InFlight ||
					state.Pod.ResourceVersion == pod.ResourceVersion).To(BeTrue())
			}).WithContext(ctx).Should(Succeed())
		}
	default:
		Eventually(w.handled).WithArguments(c.event).Should(BeNumerically(">", before), "%s is to be handled",
			c.event.Label())
	}
}

// handled returns how many events of a kind this process has handled.
func (w *wakers) handled(event fwk.ClusterEvent) uint64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "scheduler_event_handling_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == event.Label() {
				return m.GetHistogram().GetSampleCount()
			}
		}
	}
	return 0
}

// tried returns the number of attempts at a pod, or underWay if it is bound or in an attempt.
func (w *wakers) tried(ctx context.Context, pod *corev1.Pod) (int, error) {
	if w.run == nil {
		err := K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil && pod.Status.NominatedNodeName != "" && pod.Spec.NodeName == "" {
			return underWay, nil
		}
		return oracleTried(ctx, pod), err
	}
	state := w.state(pod)
	if state.Place == queue.InFlight || state.Pod == nil {
		return underWay, nil
	}
	return state.Attempts, nil
}

// underWay stands for any number of attempts.
const underWay = 1 << 20

// expectAsleep makes sure that the pods stay where they were. The change has been handled, so there
// is nothing to wait for.
func (w *wakers) expectAsleep(ctx context.Context, pods []*corev1.Pod, before map[types.UID]int) {
	GinkgoHelper()
	for _, pod := range pods {
		if w.run == nil {
			Consistently(oracleTried).WithArguments(ctx, pod).
				Should(Equal(before[pod.UID]), "%s is not to be tried again", pod.Name)
			continue
		}
		state := w.state(pod)
		Expect(state.Place).To(BeElementOf(queue.Unschedulable, queue.Gated), "%s is not to be tried again", pod.Name)
		Expect(state.Attempts).To(Equal(before[pod.UID]), "%s is not to be tried again", pod.Name)
	}
}

// expectRefusedByOracle is expectRefused for kube-scheduler, which reports only that the pod was
// rejected.
func (w *wakers) expectRefusedByOracle(ctx context.Context, pod *corev1.Pod, c *wake) int {
	GinkgoHelper()
	if c.gated {
		Eventually(func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		}).WithContext(ctx).Should(Succeed())
		return 0
	}
	ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Not(BeEmpty()))
	// kube-scheduler may receive objects that were created before the pod after it.
	tried := 0
	Eventually(func(g Gomega) {
		tried = oracleTried(ctx, pod)
		g.Consistently(oracleTried).WithArguments(ctx, pod).Should(Equal(tried))
		g.Expect(tried).To(BeNumerically(">", 0))
	}).WithContext(ctx).Should(Succeed())
	return tried
}

// oracleTried returns how often kube-scheduler has tried a pod, according to its Events.
func oracleTried(ctx context.Context, pod *corev1.Pod) int {
	tried := len(EventsOf(ctx, pod, "Scheduled"))
	for _, event := range EventsOf(ctx, pod, "FailedScheduling") {
		tried++
		if event.Series != nil {
			tried += int(event.Series.Count) - 1
		}
	}
	return tried
}

// have changes an object in the API server.
func have[T client.Object](object T, change func(T)) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		Update(ctx, object.DeepCopyObject().(T), change)
	}
}

// come creates objects.
func come(objects ...client.Object) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		for _, object := range objects {
			given(ctx, object.DeepCopyObject().(client.Object))
		}
	}
}

// goAway deletes objects.
func goAway(objects ...client.Object) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		for _, object := range objects {
			object = object.DeepCopyObject().(client.Object)
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			if len(object.GetFinalizers()) != 0 {
				Update(ctx, object, func(object client.Object) { object.SetFinalizers(nil) })
			}
			Expect(K8s.Delete(ctx, object, client.GracePeriodSeconds(0))).To(Succeed())
		}
	}
}
