// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// compareGangs names the environment variable with the number of random clusters. They are not part
// of the suite: on a busy machine, kube-scheduler 1.36 may report a group with pods on nodes as
// unschedulable when it has tried the others, because it looks for the condition that it has just
// written in its cache (updatePodGroupCondition).
//
//	LIVESCHED_COMPARE_GANGS=150 go test ./test/e2e/podgroups -ginkgo.focus Random
const compareGangs = "LIVESCHED_COMPARE_GANGS"

// livesched and kube-scheduler place a gang of equal pods each, on nodes of their own that are
// equal. They must agree whether the gang fits, how many of its pods do, and whether they are in
// one rack.
var _ = Describe("Random gangs of equal pods", Ordered, func() {
	inGroups()
	BeforeAll(startKubeScheduler)

	clusters, _ := strconv.ParseUint(os.Getenv(compareGangs), 10, 64) // not set: 0
	for seed := range clusters {
		It(fmt.Sprintf("are placed as by kube-scheduler, seed %d", seed), func(ctx context.Context) {
			c := newGangContest(seed)
			c.build(ctx)
			Expect(c.outcome(ctx, "mine")).To(Equal(c.outcome(ctx, "upstream")), "of %+v", c)
		})
	}
})

// startKubeScheduler runs kube-scheduler with its feature gates for groups, for the scheduler name
// "upstream".
func startKubeScheduler(ctx context.Context) {
	setGates(true)
	DeferCleanup(setGates, false)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k8s, err := kubernetes.NewForConfig(Cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	factory := clientinformers.NewSharedInformerFactory(k8s, 0)
	defaults, err := latest.Default() // with the plugins of the feature gates
	Expect(err).NotTo(HaveOccurred())
	profile := defaults.Profiles[0]
	profile.SchedulerName = "upstream"
	s, err := scheduler.New(running, k8s, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profile), scheduler.WithPodInitialBackoffSeconds(0),
		scheduler.WithPodMaxBackoffSeconds(0))
	Expect(err).NotTo(HaveOccurred())
	factory.Start(running.Done())
	factory.WaitForCacheSync(running.Done())
	Expect(s.WaitForHandlersSync(running)).To(Succeed())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(running)
	}()
	DeferCleanup(func() {
		cancel()
		<-ended
		// Its pods that wait for others would wait for minutes.
		s.Profiles[profile.SchedulerName].IterateOverWaitingPods(func(pod fwk.WaitingPod) {
			pod.Reject("", "the spec has ended")
		})
		factory.Shutdown()
	})
}

// setGates turns the feature gates for groups on or off. livesched, which runs in this process,
// needs none of them.
func setGates(on bool) {
	GinkgoHelper()
	Expect(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.GenericWorkload):                 on,
		string(features.TopologyAwareWorkloadScheduling): on,
	})).To(Succeed())
}

// gangContest is a random cluster and a gang.
type gangContest struct {
	seed uint64
	// racks are the CPUs of the nodes of each rack, and taken those that other pods take.
	racks, taken [][]int
	pods, needed int
	cpus         int
	inOneRack    bool
}

func newGangContest(seed uint64) *gangContest {
	random := rand.New(rand.NewPCG(seed, 5))
	c := &gangContest{seed: seed, pods: 1 + random.IntN(6), cpus: 1 + random.IntN(2), inOneRack: random.IntN(2) == 0}
	c.needed = 1 + random.IntN(c.pods)
	for range 1 + random.IntN(3) {
		var nodes, taken []int
		for range 1 + random.IntN(3) {
			cpus := 1 + random.IntN(4)
			nodes, taken = append(nodes, cpus), append(taken, max(0, random.IntN(cpus+3)-2))
		}
		c.racks, c.taken = append(c.racks, nodes), append(c.taken, taken)
	}
	return c
}

// contenders are the scheduler names.
var contenders = []string{"mine", "upstream"}

// build creates the nodes, and a gang for each scheduler when both have seen them.
func (c *gangContest) build(ctx context.Context) {
	GinkgoHelper()
	nodes := 0
	for _, of := range contenders {
		for r, rack := range c.racks {
			for n, cpus := range rack {
				name := fmt.Sprintf("%s-%d-%d-%d", of, c.seed, r, n)
				Create(ctx, Node(name, fmt.Sprint(cpus), "8Gi",
					map[string]string{"of": of, "rack": fmt.Sprintf("%s-%d", of, r)}))
				nodes++
				if taken := c.taken[r][n]; taken > 0 {
					CreatePod(ctx, "nobody", "taken-"+name, OnNode(name), CPU(fmt.Sprint(taken)))
				}
			}
		}
		for i := range c.pods {
			CreatePod(ctx, of, fmt.Sprintf("%s-%d", of, i), InGroup(c.group(of)), CPU(fmt.Sprint(c.cpus)),
				Selecting("of", of))
		}
	}
	for _, of := range contenders {
		expectNodesSeen(ctx, of, nodes)
	}
	key := ""
	if c.inOneRack {
		key = "rack"
	}
	for _, of := range contenders {
		Create(ctx, KubernetesPodGroup(c.group(of), int32(c.needed), key))
	}
}

func (c *gangContest) group(of string) string { return fmt.Sprintf("random-%d-%s", c.seed, of) }

// expectNodesSeen waits until a scheduler knows a number of nodes, and the pods that were created
// until now; see ExpectSeen.
func expectNodesSeen(ctx context.Context, of string, nodes int) {
	GinkgoHelper()
	probe := 0
	Eventually(func(g Gomega) {
		probe++
		pod := CreatePod(ctx, of, fmt.Sprintf("probe-%s-%d", of, probe), Selecting("no-node", "has-this"))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		message := pod.Status.Conditions[0].Message
		Expect(K8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		g.Expect(strings.HasPrefix(message, fmt.Sprintf("0/%d nodes are available: ", nodes))).To(BeTrue(), message)
	}).WithContext(ctx).Should(Succeed())
}

// gangOutcome is what a scheduler has done with a gang.
type gangOutcome struct {
	scheduled    bool
	bound, racks int
}

// outcome waits until a scheduler has decided about all pods of its gang.
func (c *gangContest) outcome(ctx context.Context, of string) (out gangOutcome) {
	GinkgoHelper()
	group := KubernetesPodGroup(c.group(of), 0, "")
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
		condition := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		g.Expect(condition).NotTo(BeNil())
		out = gangOutcome{scheduled: condition.Status == metav1.ConditionTrue}
		racks := sets.New[string]()
		for i := range c.pods {
			pod := &corev1.Pod{}
			g.Expect(K8s.Get(ctx,
				client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-%d", of, i)}, pod)).
				To(Succeed())
			if pod.Spec.NodeName == "" {
				g.Expect(*pod).To(BeUnschedulable(Not(BeEmpty())))
				continue
			}
			out.bound++
			racks.Insert(strings.Split(pod.Spec.NodeName, "-")[2])
		}
		if c.inOneRack {
			out.racks = racks.Len()
		}
		if out.scheduled {
			g.Expect(out.bound).NotTo(BeZero())
		} else {
			g.Expect(out.bound).To(BeZero())
		}
	}).WithContext(ctx).Should(Succeed())
	return out
}
