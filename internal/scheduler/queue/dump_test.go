// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

func TestDumpListsAllPodsByPlaceAndAge(t *testing.T) {
	shut := newDoor("G", nil)
	f := newFixture(t, preEnqueueOf(shut))
	f.Add(logger, newPod("flying"))
	f.pop()
	for i := range 2*dumpBatch + 1 {
		f.Add(logger, newPod(fmt.Sprintf("active-%03d", i), priority(int32(i))))
		f.clock.Step(time.Millisecond)
	}
	shut.status = refusal
	f.Add(logger, newPod("gated"))

	dump := f.Dump()
	f.Expect(dump).To(ConsistOf(f.PendingPods()), "the states are those that PendingPods lists")
	f.Expect(dump[0].Pod.Name).To(Equal("active-000"), "the oldest first")
	f.Expect(dump[2*dumpBatch].Pod.Name).To(Equal(fmt.Sprintf("active-%03d", 2*dumpBatch)))
	f.Expect(dump[2*dumpBatch+1].Place).To(Equal(Gated))
	f.Expect(dump[2*dumpBatch+2].Place).To(Equal(InFlight))
}

func TestDumpIsConsistentDuringConcurrentUse(t *testing.T) {
	f := newFixture(t)
	const pods = 4 * dumpBatch
	for i := range pods {
		f.Add(logger, newPod(fmt.Sprint("stays-", i)))
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		comes := newPod("comes")
		for {
			select {
			case <-stop:
				return
			default:
				f.Add(logger, comes)
				f.Activate(logger, map[string]*corev1.Pod{"": comes})
				f.Delete(logger, comes)
			}
		}
	})
	for range 20 {
		seen := sets.New[types.UID]()
		for _, s := range f.Dump() {
			f.Expect(seen.Has(s.Pod.UID)).To(BeFalse(), s.Pod.Name)
			f.Expect(s.Place).To(Equal(Active))
			seen.Insert(s.Pod.UID)
		}
		f.Expect(len(seen)).To(BeNumerically(">=", pods))
	}
	close(stop)
	others.Wait()
}

func TestDumpOfTheNominatorNamesPodsAndNodes(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.Nominator().Dump()).To(BeEmpty())
	b, a := newPod("b", nominated("n1")), newPod("a")
	f.Add(logger, b)
	info, err := schedframework.NewPodInfo(a)
	f.Expect(err).NotTo(HaveOccurred())
	f.Nominator().AddNominatedPod(logger, info, nil)
	f.Expect(f.Nominator().Dump()).To(Equal([]Nomination{{Pod: b, Node: "n1"}}))
	info, err = schedframework.NewPodInfo(objects.Edited(a, nominated("n2")))
	f.Expect(err).NotTo(HaveOccurred())
	f.Nominator().AddNominatedPod(logger, info, nil)
	f.Expect(f.Nominator().Dump()).To(Equal([]Nomination{{Pod: info.Pod, Node: "n2"}, {Pod: b, Node: "n1"}}))
}
