// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// crowd is groups that compete for the room of a small cluster and preempt each other, while
// livesched is reloaded and replaced, and bindings fail.
type crowd struct {
	*rand.Rand
	faults *Faults
	run    *testcluster.Running
	// groups are those that exist, by their names.
	groups map[string]*rival
	made   int
	// failed is true once bindings may have failed, or a livesched has ended between two of them.
	failed bool
}

// rival is one of the groups.
type rival struct {
	object client.Object
	// needed is how many pods it needs, and pods how many were created.
	needed, pods int
	// important means that it preempts those that are not.
	important bool
}

const (
	crowdNodes = 4
	nodeCPUs   = 4 // those of CreateNodes
)

var _ = Describe("Groups of pods that compete", func() {
	It("have all that they need or nothing, whatever happens", func(ctx context.Context) {
		seed := uint64(GinkgoRandomSeed())
		c := &crowd{Rand: rand.New(rand.NewPCG(seed, 0)), faults: &Faults{}, groups: map[string]*rival{}}
		c.start()
		DeferCleanup(func() { Expect(c.run.Stop(StopsWithin)).To(Succeed()) })
		Create(ctx, QuickRetries())
		CreateClasses(ctx, PriorityClass("important", 100))
		CreateNodes(ctx, Names("n", crowdNodes)...)
		CreateProfile(ctx, "mine", "")
		for range 60 {
			c.act(ctx)
		}
		c.faults.Set(nil)
		c.expectAllOrNothing(ctx)
	}, NodeTimeout(3*time.Minute))
})

// start runs a livesched whose calls may be spoiled.
func (c *crowd) start() {
	GinkgoHelper()
	c.run = StartUnstopped(c.faults.Config())
	Eventually(c.run.Scheduler.Ready()).Should(BeClosed())
}

// act makes a random change.
func (c *crowd) act(ctx context.Context) {
	GinkgoHelper()
	switch c.IntN(10) {
	case 0, 1, 2, 3:
		c.create(ctx)
	case 4, 5:
		c.deleteOne(ctx)
	case 6:
		By("reloading the profile")
		Respec(ctx, "mine", fmt.Sprintf("plugins: {score: {enabled: [{name: NodeResourcesFit, weight: %d}]}}",
			1+c.IntN(50)))
	case 7:
		By("replacing livesched")
		c.failed = true
		Expect(c.run.Stop(StopsWithin)).To(Succeed())
		c.start()
	case 8:
		By("letting one of four bindings fail")
		c.failed = true
		var calls atomic.Int64
		c.faults.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/binding") && calls.Add(1)%4 == 0 {
				return nil, errors.New("spoiled")
			}
			return send()
		})
	case 9:
		By("letting bindings succeed")
		c.faults.Set(nil)
	}
}

// create creates a group with as many pods as it needs, or some more. Groups are of both APIs in
// turn, as far as the API server serves them.
func (c *crowd) create(ctx context.Context) {
	c.made++
	name := fmt.Sprintf("g%d", c.made)
	g := &rival{needed: 1 + c.IntN(6), important: c.IntN(4) == 0}
	g.pods = g.needed + c.IntN(2)
	c.groups[name] = g
	By(fmt.Sprintf("creating %s of %d pods, which needs %d, important: %t", name, g.pods, g.needed, g.important))
	class, whole := "", c.IntN(2) == 0
	if g.important {
		class = "important"
	}
	member := MemberOf(name)
	if ServerAtLeast("1.36") && c.made%2 == 0 {
		group := KubernetesPodGroup(name, int32(g.needed), "")
		group.Spec.PriorityClassName = class
		g.object, member = group, InGroup(name)
	} else {
		group := PodGroup(name, g.needed)
		if whole {
			group.SetAnnotations(map[string]string{podgroup.AnnotationDisruptionMode: "PodGroup"})
		}
		g.object = group
	}
	Create(ctx, g.object)
	for i := range g.pods {
		// The label is how the spec finds the pod.
		CreatePod(ctx, "mine", fmt.Sprintf("%s-%d", name, i), Labelled(podgroup.Label, name), member, CPU("1"),
			Prioritized(class))
	}
}

// deleteOne deletes a group, with its pods.
func (c *crowd) deleteOne(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(c.groups)) {
		if c.IntN(len(c.groups)) != 0 {
			continue
		}
		By("deleting " + name)
		Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(corev1.NamespaceDefault),
			client.MatchingLabels{podgroup.Label: name},
			client.GracePeriodSeconds(0))).To(Succeed())
		Expect(K8s.Delete(ctx, c.groups[name].object)).To(Succeed())
		delete(c.groups, name)
		return
	}
}

// expectAllOrNothing waits until no group waits for room that is free, or that it can have by
// preemption. A group has the nodes that it needs, or none; or it was preempted; or bindings of it
// have failed, and others have taken their room.
func (c *crowd) expectAllOrNothing(ctx context.Context) {
	GinkgoHelper()
	wrong := func() (wrong []string) {
		pods, bounds := map[string]int{}, map[string]int{}
		free, evictable := crowdNodes*nodeCPUs, 0
		for name, g := range c.groups {
			pods[name], bounds[name] = boundOf(ctx, name)
			free -= bounds[name]
			if !g.important {
				evictable += bounds[name]
			}
		}
		for name, g := range c.groups {
			bound, room := bounds[name], free
			if g.important {
				room += evictable
			}
			if bound < g.needed && pods[name] >= g.needed && g.needed-bound <= room {
				wrong = append(wrong,
					fmt.Sprintf("%s has %d of %d, while there is room for %d", name, bound, g.needed, room))
			}
			if g.important && pods[name] < g.pods {
				wrong = append(wrong, fmt.Sprintf("%s has lost pods", name))
			}
			if bound > 0 && bound < g.needed && pods[name] == g.pods && !c.failed {
				wrong = append(wrong, fmt.Sprintf("%s has %d of %d, and no binding has failed", name, bound, g.needed))
			}
		}
		return wrong
	}
	Eventually(wrong).Should(BeEmpty())
	Consistently(wrong).Should(BeEmpty())
}
