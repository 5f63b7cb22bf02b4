// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupstatus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	leaks.Main(m)
}

// world is a Reconciler with an API server. Everything runs in a bubble of synctest.
type world struct {
	*WithT
	*Reconciler
	t        *testing.T
	ctx      context.Context
	pods     *fake.Clientset
	groups   *dynamicfake.FakeDynamicClient
	informer toolscache.SharedIndexInformer
	stops    []func()

	mu      sync.Mutex // guards the fields below
	patches int
	lists   int
	// answers are the errors of the next patches.
	answers []error
}

// statusWriter writes the status of PodGroups.
type statusWriter struct {
	client.SubResourceWriter
	groups dynamic.Interface
}

func (w statusWriter) Patch(ctx context.Context, group client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption) error {
	data, err := patch.Data(group)
	if err != nil {
		return err
	}
	_, err = w.groups.Resource(podgroup.Resource).Namespace(group.GetNamespace()).
		Patch(ctx, group.GetName(), patch.Type(), data, metav1.PatchOptions{}, "status")
	return err
}

// testWatch is a watch with an informer of PodGroups that needs no manager.
type testWatch struct {
	*watch
	t      *testing.T
	groups toolscache.SharedIndexInformer
	ended  chan struct{}
}

func (w testWatch) Start(ctx context.Context, queue requests) error {
	go func() {
		defer close(w.ended)
		if err := w.follow(ctx, queue, w.groups); err != nil {
			w.t.Error(err)
		}
	}()
	return nil
}

// newWorld returns a world without groups, in which "mine" has a profile.
func newWorld(t *testing.T) *world {
	kinds := map[schema.GroupVersionResource]string{podgroup.Resource: podgroup.Kind.Kind + "List"}
	w := &world{
		WithT: NewWithT(t), t: t, ctx: klog.NewContext(t.Context(), logr.Discard()),
		pods:   fake.NewClientset(),
		groups: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
	}
	w.groups.PrependReactor("patch", "podgroups", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.patches++
		if patch := action.(clienttesting.PatchAction); patch.GetSubresource() != "status" ||
			!bytes.Contains(patch.GetPatch(), []byte(`"resourceVersion":"7"`)) {
			return true, nil, errors.New("a patch of the status with the resource version is expected")
		}
		if len(w.answers) == 0 {
			return false, nil, nil
		}
		err := w.answers[0]
		w.answers = w.answers[1:]
		return err != nil, nil, err
	})
	w.pods.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lists++
		if labels := action.(clienttesting.ListAction).GetListRestrictions().Labels; labels.String() != podgroup.Label {
			return true, nil, errors.New("a list of pods of groups is expected")
		}
		return false, nil, nil
	})
	w.informer = dynamicinformer.NewFilteredDynamicInformer(w.groups, podgroup.Resource, metav1.NamespaceAll, 0,
		toolscache.Indexers{}, nil).Informer()
	w.background(w.informer.RunWithContext)
	w.follow()
	return w
}

// follow lets the world have a new Reconciler, which does not run.
func (w *world) follow() {
	w.Reconciler = New(w.pods, nil, statusWriter{groups: w.groups})
	w.SetProfiles(sets.New("mine"))
}

// lead runs the Reconciler, with a controller as the manager would, until the end of the world, or
// the call of the function that it returns.
func (w *world) lead() (stop func()) {
	options := options()
	options.Reconciler, options.CacheSyncTimeout = w.Reconciler, 1000*time.Hour
	options.LogConstructor = func(*reconcile.Request) logr.Logger { return logr.Discard() }
	options.SkipNameValidation = ptr.To(true)
	runs, err := controller.NewUnmanaged("podgroups", options)
	w.Expect(err).NotTo(HaveOccurred())
	watched := testWatch{watch: w.watch, t: w.t, groups: w.informer, ended: make(chan struct{})}
	w.Expect(runs.Watch(watched)).To(Succeed())
	return w.background(func(ctx context.Context) {
		if err := runs.Start(ctx); err != nil {
			w.t.Error(err)
		}
		<-watched.ended
	})
}

// background runs f in a goroutine until the end of the world, or the call of the function that it
// returns.
func (w *world) background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); f(ctx) }()
	stop = func() { cancel(); <-ended }
	w.stops = append(w.stops, stop)
	return stop
}

// end ends all goroutines.
func (w *world) end() {
	for _, stop := range w.stops {
		stop()
	}
}

// pause lets a time pass in which all that can be done is done.
func (w *world) pause(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) createGroup(namespace, name string, minMember int64) {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": minMember}}}
	group.SetGroupVersionKind(podgroup.Kind)
	group.SetNamespace(namespace)
	group.SetName(name)
	group.SetUID(types.UID(namespace + name))
	group.SetResourceVersion("7")
	_, err := w.groups.Resource(podgroup.Resource).Namespace(namespace).Create(w.ctx, group, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// podOf returns a pod of a group in the namespace ml.
func podOf(group, name, scheduler string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: name, UID: types.UID(name),
			Labels:          map[string]string{podgroup.Label: group, "other": "x"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "job"}},
		},
		Spec:   corev1.PodSpec{SchedulerName: scheduler},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// createPods creates pods of a group in the namespace ml, which are called after it.
func (w *world) createPods(group, scheduler string, n int) (pods []*corev1.Pod) {
	for i := range n {
		pod := podOf(group, fmt.Sprintf("%s-%d", group, i), scheduler)
		w.create(pod)
		pods = append(pods, pod)
	}
	return pods
}

func (w *world) create(pod *corev1.Pod) {
	_, err := w.pods.CoreV1().Pods(pod.Namespace).Create(w.ctx, pod.DeepCopy(), metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) update(pod *corev1.Pod) {
	_, err := w.pods.CoreV1().Pods(pod.Namespace).Update(w.ctx, pod.DeepCopy(), metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// become gives pods a phase.
func (w *world) become(phase corev1.PodPhase, pods ...*corev1.Pod) {
	for _, pod := range pods {
		pod.Status.Phase = phase
		w.update(pod)
	}
}

// statusOf returns the status of a group that the API server has.
func (w *world) statusOf(namespace, name string) status {
	found, err := w.groups.Resource(podgroup.Resource).Namespace(namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	var g group
	w.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &g)).To(Succeed())
	return g.Status
}

func (w *world) expectPatches(n int, when string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Expect(w.patches).To(Equal(n), when)
}

// inWorld runs a test in a world of its own.
func inWorld(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		f(w)
	})
}

func TestTheStatusFollowsThePods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.lead()
		w.createGroup("ml", "g", 2)
		w.createGroup("other", "g", 2) // has the same name, but no pods
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g")).To(Equal(status{Phase: pending}))
		w.Expect(w.statusOf("other", "g")).To(Equal(status{Phase: pending}))
		pods := w.createPods("g", "mine", 3)
		w.pause(settle)
		w.Expect(w.statusOf("ml", "g")).To(Equal(status{Phase: scheduling, OccupiedBy: "ml/job"}))
		w.become(corev1.PodRunning, pods...)
		w.pause(interval)
		w.Expect(w.statusOf("ml", "g")).To(Equal(status{Phase: running, OccupiedBy: "ml/job", Running: 3}))
		w.become(corev1.PodSucceeded, pods[0])
		w.pause(interval)
		w.Expect(w.statusOf("ml", "g")).
			To(Equal(status{Phase: running, OccupiedBy: "ml/job", Running: 2, Succeeded: 1}))
		w.become(corev1.PodSucceeded, pods[1])
		w.pause(interval)
		w.Expect(w.statusOf("ml", "g")).
			To(Equal(status{Phase: finished, OccupiedBy: "ml/job", Running: 1, Succeeded: 2}))
		w.Expect(w.pods.CoreV1().Pods("ml").Delete(w.ctx, pods[0].Name, metav1.DeleteOptions{})).To(Succeed())
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(finished))
		w.Expect(w.statusOf("other", "g")).To(Equal(status{Phase: pending}))
		w.expectPatches(6, "one for each change")
	})
}

func TestAPodJoinsAndLeavesAGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createGroup("ml", "g", 1)
		w.createGroup("ml", "h", 1)
		pods := w.createPods("g", "mine", 1)
		w.lead()
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(scheduling))
		w.Expect(w.statusOf("ml", "h").Phase).To(Equal(pending))
		pods[0].Labels = map[string]string{podgroup.Label: "h"}
		w.update(pods[0])
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(pending))
		w.Expect(w.statusOf("ml", "h").Phase).To(Equal(scheduling))
		both := podOf("g", "both", "mine")
		both.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &both.Name}
		w.create(both)
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(pending), "the pod belongs to a PodGroup of Kubernetes")
	})
}

func TestManyChangesAreAFewWrites(t *testing.T) {
	inWorld(t, func(w *world) {
		w.lead()
		w.createGroup("ml", "g", 100)
		pods := w.createPods("g", "mine", 100)
		w.pause(time.Minute)
		w.expectPatches(1, "they arrive at once")
		for _, pod := range pods {
			w.become(corev1.PodRunning, pod)
			w.pause(50 * time.Millisecond)
		}
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g")).To(Equal(status{Phase: running, OccupiedBy: "ml/job", Running: 100}))
		// The first one is written 100 ms after the first pod, and then one a second.
		w.expectPatches(1+6, "they begin to run within five seconds")
		for _, pod := range pods {
			pod.Labels["other"] = "y"
			w.update(pod)
		}
		w.pause(time.Minute)
		w.expectPatches(1+6, "what matters has not changed")
	})
}

func TestGroupsOfOtherSchedulersAreLeftToThem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.lead()
		w.createPods("g", "theirs", 2)
		w.createPods("mixed", "theirs", 1)
		w.create(podOf("mixed", "mixed-1", "mine"))
		w.createGroup("ml", "g", 2)
		w.createGroup("ml", "mixed", 2)
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g")).To(Equal(status{}))
		w.Expect(w.statusOf("ml", "mixed").Phase).To(Equal(scheduling))
		w.expectPatches(1, "of the mixed group")
		w.SetProfiles(sets.New("mine", "theirs"))
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(scheduling), "there is a profile for it now")
	})
}

func TestPodsAreNotListedWithoutGroups(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createPods("g", "mine", 1)
		stop := w.lead()
		w.SetProfiles(sets.New("mine", "theirs"))
		w.pause(time.Hour)
		w.Expect(w.lists).To(BeZero())
		w.createGroup("ml", "g", 1)
		w.pause(time.Minute)
		w.Expect(w.lists).To(Equal(1))
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(scheduling))
		stop()
		w.createGroup("ml", "h", 1)
		w.pause(time.Hour)
		w.Expect(w.statusOf("ml", "h")).To(Equal(status{}), "a follower writes nothing")
		w.follow()
		w.lead()
		w.pause(time.Minute)
		w.Expect(w.statusOf("ml", "h")).To(Equal(status{Phase: pending}), "the next leader looks at all groups")
		w.expectPatches(2, "one for each group")
	})
	inWorld(t, func(w *world) {
		stop := w.lead()
		w.pause(time.Hour)
		stop()
		w.Expect(w.lists).To(BeZero(), "of a leader that ends before there is a group")
	})
}

func TestAFailedWriteIsRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 5 {
			w.answers = append(w.answers, apierrors.NewInternalError(errors.New("broken")))
		}
		w.lead()
		w.createGroup("ml", "g", 1)
		w.pause(settle + 14*time.Second)
		w.expectPatches(4, "after 1, 2 and 4 seconds, and not after 8 yet")
		w.createPods("g", "mine", 1)
		w.pause(settle)
		w.expectPatches(5, "something has changed")
		w.pause(15 * time.Second)
		w.expectPatches(5, "after 16 seconds")
		w.pause(time.Second)
		w.expectPatches(6, "until it succeeds")
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(scheduling))
	})
}

func TestTheInformerIsLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers = []error{apierrors.NewConflict(podgroup.Resource.GroupResource(), "g", errors.New("newer"))}
		w.lead()
		w.createGroup("ml", "g", 1)
		w.pause(time.Hour)
		w.expectPatches(1, "the informer has not seen the newer version yet")
		newer, err := w.groups.Resource(podgroup.Resource).Namespace("ml").Get(w.ctx, "g", metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		newer.SetLabels(map[string]string{"by": "another"})
		_, err = w.groups.Resource(podgroup.Resource).Namespace("ml").Update(w.ctx, newer, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.pause(settle)
		w.expectPatches(2, "it has")
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(pending))
	})
}

func TestAGroupThatIsDeletedIsForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers = []error{apierrors.NewNotFound(podgroup.Resource.GroupResource(), "g")}
		w.lead()
		w.createGroup("ml", "g", 1)
		w.pause(time.Hour)
		w.expectPatches(1, "it is not repeated for a group that is gone")
		w.Expect(w.groups.Resource(podgroup.Resource).Namespace("ml").Delete(w.ctx, "g", metav1.DeleteOptions{})).
			To(Succeed())
		w.pause(time.Minute)
		w.createGroup("ml", "g", 2)
		w.createPods("g", "mine", 2)
		w.pause(settle)
		w.Expect(w.statusOf("ml", "g").Phase).To(Equal(scheduling))
		w.expectPatches(2, "that of the new group")
	})
}

func TestNoReconcilerKeepsNothing(t *testing.T) {
	var r *Reconciler
	r.SetProfiles(sets.New("mine"))
	if err := r.SetupWithManager(nil); err != nil {
		t.Error(err)
	}
}
