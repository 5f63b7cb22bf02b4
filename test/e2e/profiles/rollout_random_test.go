// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// rollouts returns the number of roll-outs: few enough for every run of the tests, or ROLLOUTS.
func rollouts() int {
	GinkgoHelper()
	v := os.Getenv("ROLLOUTS")
	if v == "" {
		return 4
	}
	n, err := strconv.Atoi(v)
	Expect(err).NotTo(HaveOccurred(), "ROLLOUTS must be a number")
	return n
}

// These begin the names of versions that bind no pod: they refuse all nodes, fail to look at
// them, or fail to bind.
const (
	refusing = "refusing-"
	failing  = "failing-"
	unbound  = "unbound-"
)

// tryout is a cluster in which one profile is rolled out again and again. Each version of its spec
// gives a plugin another name, by which the plugin records which one has bound a pod.
type tryout struct {
	*rand.Rand
	script *Script
	faults *Faults
	run    *testcluster.Running
	// stable is the version that runs, and applied the spec that was applied last.
	stable  string
	applied v1alpha1.SchedulerProfileSpec
	pods    int
	// seen counts the owners of pods that were decided during roll-outs, withCanary those with the
	// canary, and expected is how many these should be.
	seen, withCanary int
	expected         float64
}

var _ = Describe("Random roll-outs, with leaders that are killed", func() {
	It("bind every pod once, by a version that was live, and keep shares and specs", func(ctx context.Context) {
		seed := rand.Uint64()
		GinkgoWriter.Println("seed", seed)
		w := &tryout{Rand: rand.New(rand.NewPCG(seed, 0)), script: &Script{}, faults: &Faults{}, stable: "first"}
		w.script.Perform(func(a *Acts) {
			a.Filter = func(_ context.Context, a *Actor, _ *corev1.Pod, _ string) *fwk.Status {
				switch {
				case strings.HasPrefix(a.Args.As, refusing):
					return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "poisoned")
				case strings.HasPrefix(a.Args.As, failing):
					return fwk.NewStatus(fwk.Error, "poisoned")
				}
				return nil
			}
			a.PreBind = func(_ context.Context, a *Actor, _ *corev1.Pod, _ string) *fwk.Status {
				if strings.HasPrefix(a.Args.As, unbound) {
					return fwk.NewStatus(fwk.Error, "poisoned")
				}
				return nil
			}
		})
		w.start()
		DeferCleanup(func() {
			Running = nil
			Expect(w.run.Stop(StopsWithin)).To(Succeed())
		})
		Create(ctx, QuickRetries(), Profile("shop", w.spec(w.stable, 50)))
		for i := range 10 {
			Create(ctx, Node(fmt.Sprint("n", i), "200", "200Gi", nil))
		}
		ExpectProgrammed(ctx, "shop")
		for i := range rollouts() {
			By(fmt.Sprintf("roll-out %d from %s", i, w.stable))
			w.script.Forget()
			w.rollOut(ctx, i)
			Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault),
				client.GracePeriodSeconds(0))).To(Succeed()) // else the nodes are full, for both versions
		}
		share, sigma := w.expected/float64(w.seen), 0.5/math.Sqrt(float64(w.seen))
		GinkgoWriter.Printf("%d owners, %.1f %% with the canary, expected %.1f %%\n", w.seen,
			100*float64(w.withCanary)/float64(w.seen), 100*share)
		Expect(float64(w.withCanary)/float64(w.seen)).To(BeNumerically("~", share, 5*sigma), "of %d owners", w.seen)
	}, NodeTimeout(30*time.Minute))
})

func (w *tryout) start() {
	GinkgoHelper()
	w.faults.Set(nil)
	w.run = StartUnstopped(w.faults.Config(), w.script.Register)
	Eventually(w.run.Scheduler.Ready()).Should(BeClosed())
	Running = w.run
}

// kill ends the leader, which may not have written what it knows, and starts another one.
func (w *tryout) kill() {
	GinkgoHelper()
	if w.IntN(2) == 0 {
		w.faults.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "schedulerprofiles") {
				return nil, ErrNoRoute
			}
			return send()
		})
	}
	Expect(w.run.Stop(StopsWithin)).To(Succeed())
	w.start()
}

func (w *tryout) spec(version string, weight int) string {
	return fmt.Sprintf(`
plugins: {multiPoint: {enabled: [{name: Alpha}]}}
pluginConfig: [{name: Alpha, args: {as: %s}}]
rollout: {strategy: Canary, canary: {shadowDuration: 0s, steps: [{setWeight: %d}, {pause: {}}]}}
`, version, weight)
}

// rollOut rolls out another version, and ends that in one of several ways.
func (w *tryout) rollOut(ctx context.Context, i int) {
	GinkgoHelper()
	version, weight := fmt.Sprint("version-", i), []int{20, 50, 80}[w.IntN(3)]
	poisoned, killAt := w.IntN(3) == 0, w.IntN(4) // 0: before pods come, 1: after they came, 2, 3: not
	if i == 0 {                                   // at least one roll-out has a share that can be checked
		poisoned, killAt = false, 2*w.IntN(2)
	}
	if poisoned {
		version, weight = fmt.Sprint([]string{refusing, failing, unbound}[w.IntN(3)], i), []int{20, 50}[w.IntN(2)]
	}
	object := Profile("shop", "")
	Update(ctx, object, func(p *v1alpha1.SchedulerProfile) { p.Spec = Profile("", w.spec(version, weight)).Spec })
	w.applied = *object.Spec.DeepCopy() // with the defaults of the API server
	status := w.expectStage(ctx, "Canary")
	if killAt == 0 {
		w.kill()
	}
	pods := w.createPods(ctx, 30, poisoned)
	if killAt == 1 {
		w.kill()
	}
	if poisoned {
		w.expectTakenBack(ctx, &pods)
		w.expectBound(ctx, pods, w.stable)
		w.expectSpec(ctx)
		return
	}
	as := w.expectBound(ctx, pods, w.stable, version)
	if killAt != 1 {
		w.expectShare(as, pods, version, weight)
	}
	switch w.IntN(4) {
	case 0:
		w.direct(ctx, "promote:"+status.CanaryRevision)
		ExpectProgrammed(ctx, "shop")
		w.stable = version
	case 1:
		w.direct(ctx, "promote-full:"+status.CanaryRevision)
		ExpectProgrammed(ctx, "shop")
		w.stable = version
	case 2:
		w.direct(ctx, "abort:"+status.CanaryRevision)
		w.expectStage(ctx, "Aborted")
	default: // the next roll-out takes its place
	}
	w.expectSpec(ctx)
	if w.IntN(3) == 0 {
		w.kill()
	}
}

// createPods creates pods. A third of them have a controller that they share with others, unless
// each is to be an owner.
func (w *tryout) createPods(ctx context.Context, n int, alone bool) []*corev1.Pod {
	GinkgoHelper()
	var pods []*corev1.Pod
	for range n {
		w.pods++
		pods = append(pods, CreatePod(ctx, "shop", fmt.Sprint("pod-", w.pods), func(pod *corev1.Pod) {
			if !alone && w.IntN(3) == 0 {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web",
					UID: types.UID(fmt.Sprintf("%d-%d", w.pods/n, w.IntN(3))), Controller: ptr.To(true)}}
			}
		}))
	}
	return pods
}

// expectBound waits until pods are bound, each once and by one of the versions, and returns which.
func (w *tryout) expectBound(ctx context.Context, pods []*corev1.Pod, versions ...string) map[types.UID]string {
	GinkgoHelper()
	by := map[types.UID]string{}
	for _, pod := range pods {
		ExpectBound(ctx, pod)
		var bound []string
		Eventually(func() []string {
			bound = nil
			for _, call := range w.script.About(pod) {
				if call.Point == "PostBind" {
					bound = append(bound, call.As)
				}
			}
			return bound
		}).WithContext(ctx).ShouldNot(BeEmpty())
		Expect(bound).To(HaveLen(1), "%s was bound once", pod.Name)
		Expect(versions).To(ContainElement(bound[0]), "%s was bound by a version that was live", pod.Name)
		by[pod.UID] = bound[0]
	}
	return by
}

// expectShare checks that pods of one owner had one version, and counts the owners.
func (w *tryout) expectShare(by map[types.UID]string, pods []*corev1.Pod, version string, weight int) {
	GinkgoHelper()
	owners := map[types.UID]string{}
	for _, pod := range pods {
		owner := pod.UID
		if controller := metav1.GetControllerOf(pod); controller != nil {
			owner = controller.UID
		}
		if before, known := owners[owner]; known {
			Expect(by[pod.UID]).To(Equal(before), "the pods of %s had different versions", owner)
		}
		owners[owner] = by[pod.UID]
	}
	for _, as := range owners {
		if as == version {
			w.withCanary++
		}
	}
	w.seen += len(owners)
	w.expected += float64(weight) / 100 * float64(len(owners))
}

// expectTakenBack waits until the roll-out is aborted. Chance may have given few of the pods to the
// new version, so each further look adds one.
func (w *tryout) expectTakenBack(ctx context.Context, pods *[]*corev1.Pod) {
	GinkgoHelper()
	Eventually(func() v1alpha1.RolloutPhase {
		*pods = append(*pods, w.createPods(ctx, 1, true)...)
		return w.status(ctx).Phase
	}).WithContext(ctx).WithPolling(500 * time.Millisecond).Should(Equal(v1alpha1.RolloutDegraded))
}

func (w *tryout) status(ctx context.Context) v1alpha1.RolloutStatus {
	GinkgoHelper()
	p := &v1alpha1.SchedulerProfile{}
	Expect(K8s.Get(ctx, client.ObjectKey{Name: "shop"}, p)).To(Succeed())
	if p.Status.ObservedGeneration != p.Generation {
		return v1alpha1.RolloutStatus{}
	}
	return ptr.Deref(p.Status.Rollout, v1alpha1.RolloutStatus{})
}

func (w *tryout) expectStage(ctx context.Context, stage string) v1alpha1.RolloutStatus {
	GinkgoHelper()
	var status v1alpha1.RolloutStatus
	Eventually(func() string {
		status = w.status(ctx)
		return status.Stage
	}).WithContext(ctx).Should(Equal(stage))
	return status
}

// expectSpec checks that livesched has left the spec alone.
func (w *tryout) expectSpec(ctx context.Context) {
	GinkgoHelper()
	p := &v1alpha1.SchedulerProfile{}
	Expect(K8s.Get(ctx, client.ObjectKey{Name: "shop"}, p)).To(Succeed())
	want, err := json.Marshal(w.applied)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Marshal(p.Spec)).To(Equal(want))
}

func (w *tryout) direct(ctx context.Context, command string) {
	GinkgoHelper()
	Update(ctx, Profile("shop", ""), func(p *v1alpha1.SchedulerProfile) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationRollout, command)
	})
}
