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

// crowd is groups that compete for the room of a small cluster, while livesched is reloaded and
// replaced, and bindings fail.
type crowd struct {
	*rand.Rand
	faults *Faults
	run    *testcluster.Running
	// needs is the number of pods that each group needs.
	needs map[string]int
	// groups are the objects of the groups.
	groups map[string]client.Object
	made   int
	// failed is true once bindings may have failed, or a livesched has ended between two of them.
	failed bool
}

const (
	crowdNodes = 4
	nodeCPUs   = 4 // those of CreateNodes
)

var _ = Describe("Groups of pods that compete", func() {
	It("have all that they need or nothing, whatever happens", func(ctx context.Context) {
		seed := uint64(GinkgoRandomSeed())
		c := &crowd{Rand: rand.New(rand.NewPCG(seed, 0)), faults: &Faults{}, needs: map[string]int{}, groups: map[string]client.Object{}}
		c.start()
		DeferCleanup(func() { Expect(c.run.Stop(StopsWithin)).To(Succeed()) })
		Create(ctx, QuickRetries())
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
		Respec(ctx, "mine", fmt.Sprintf("plugins: {score: {enabled: [{name: NodeResourcesFit, weight: %d}]}}", 1+c.IntN(50)))
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
	c.needs[name] = 1 + c.IntN(6)
	pods := c.needs[name] + c.IntN(2)
	By(fmt.Sprintf("creating %s of %d pods, which needs %d", name, pods, c.needs[name]))
	group, member := client.Object(PodGroup(name, c.needs[name])), MemberOf(name)
	if ServerAtLeast("1.36") && c.made%2 == 0 {
		group, member = KubernetesPodGroup(name, int32(c.needs[name]), ""), InGroup(name)
	}
	c.groups[name] = group
	Create(ctx, group)
	for i := range pods {
		// The label is how the spec finds the pod.
		CreatePod(ctx, "mine", fmt.Sprintf("%s-%d", name, i), Labelled(podgroup.Label, name), member, CPU("1"))
	}
}

// deleteOne deletes a group, with its pods.
func (c *crowd) deleteOne(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(c.needs)) {
		if c.IntN(len(c.needs)) != 0 {
			continue
		}
		By("deleting " + name)
		Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{podgroup.Label: name},
			client.GracePeriodSeconds(0))).To(Succeed())
		Expect(K8s.Delete(ctx, c.groups[name])).To(Succeed())
		delete(c.needs, name)
		return
	}
}

// expectAllOrNothing waits until no group waits for room that is free. A group has the nodes that
// it needs, or none, or bindings of it have failed, and others have taken their room.
func (c *crowd) expectAllOrNothing(ctx context.Context) {
	GinkgoHelper()
	wrong := func() (wrong []string) {
		bounds, free := map[string]int{}, crowdNodes*nodeCPUs
		for name := range c.needs {
			_, bounds[name] = boundOf(ctx, name)
			free -= bounds[name]
		}
		for name, needed := range c.needs {
			bound := bounds[name]
			if bound < needed && needed-bound <= free {
				wrong = append(wrong, fmt.Sprintf("%s has %d of %d, while there is room for %d", name, bound, needed, free))
			}
			if bound > 0 && bound < needed && !c.failed {
				wrong = append(wrong, fmt.Sprintf("%s has %d of %d, and no binding has failed", name, bound, needed))
			}
		}
		return wrong
	}
	Eventually(wrong).Should(BeEmpty())
	Consistently(wrong).Should(BeEmpty())
}
