// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupcondition

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	leaks.Main(m)
}

var train = podgroup.Key{Source: podgroup.Kubernetes, Namespace: "ml", Name: "train"}

// world is a Writer with an API server that has a group, and a lister of what informers have seen.
type world struct {
	*WithT
	*Writer
	ctx     context.Context
	client  *fake.Clientset
	seen    toolscache.Indexer
	patches int
	// answers are the errors of the next patches.
	answers []error
}

func newWorld(t *testing.T) *world {
	group := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: train.Namespace, Name: train.Name,
		UID: "1", Generation: 7}}
	w := &world{
		WithT: NewWithT(t), ctx: klog.NewContext(t.Context(), logr.Discard()), client: fake.NewClientset(group),
		seen: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}),
	}
	w.client.PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.patches++
		if len(w.answers) == 0 {
			return false, nil, nil
		}
		err := w.answers[0]
		w.answers = w.answers[1:]
		return err != nil, nil, err
	})
	w.Expect(w.seen.Add(group)).To(Succeed())
	w.Writer = NewWriter(w.client, schedulinglisters.NewPodGroupLister(w.seen))
	w.Start(w.ctx)
	return w
}

// catchUp lets informers see what the API server has.
func (w *world) catchUp() {
	w.Expect(w.seen.Update(w.stored())).To(Succeed())
}

func (w *world) stored() *schedulingv1alpha2.PodGroup {
	group, err := w.client.SchedulingV1alpha2().PodGroups(train.Namespace).Get(w.ctx, train.Name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return group
}

// expect waits until nothing is left to do, and compares the condition and the number of patches.
func (w *world) expect(when string, status metav1.ConditionStatus, reason, message string, patches int) {
	synctest.Wait()
	w.Expect(w.stored().Status.Conditions).To(ConsistOf(And(
		HaveField("Type", schedulingv1alpha2.PodGroupScheduled), HaveField("Status", status),
		HaveField("Reason", reason),
		HaveField("Message", message), HaveField("ObservedGeneration", int64(7)),
		HaveField("LastTransitionTime.Time", Not(BeZero())),
	)), when)
	w.Expect(w.patches).To(Equal(patches), when)
}

func TestTheConditionOfAGroup(t *testing.T) {
	for name, informed := range map[string]bool{"informers are up to date": true, "informers are late": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.Close(w.ctx)
				next := func() {
					synctest.Wait()
					if informed {
						w.catchUp()
					}
				}
				w.Incomplete(train, "no room")
				w.expect("it does not fit", metav1.ConditionFalse, "Unschedulable", "no room", 1)
				since := w.stored().Status.Conditions[0].LastTransitionTime
				next()
				w.Unschedulable(train, "no room")
				w.expect("it does not fit again", metav1.ConditionFalse, "Unschedulable", "no room", 1)
				next()
				<-time.After(time.Hour)
				w.Failed(train, errors.New("broken"))
				w.expect("an error", metav1.ConditionFalse, "SchedulerError", "broken", 2)
				w.Expect(w.stored().Status.Conditions[0].LastTransitionTime.Equal(&since)).
					To(BeTrue(), "the status is the same")
				next()
				w.Scheduled(train)
				w.expect("it fits", metav1.ConditionTrue, "Scheduled", "", 3)
				w.Expect(w.stored().Status.Conditions[0].LastTransitionTime.Time).To(BeTemporally(">", since.Time))
				next()
				w.Unschedulable(train, "no room for more")
				w.Scheduled(train)
				w.expect("further pods do not fit", metav1.ConditionTrue, "Scheduled", "", 3)
				next()
				w.Incomplete(train, "1 of 2 pods are bound")
				w.expect("it has lost a pod", metav1.ConditionTrue, "Scheduled", "1 of 2 pods are bound", 4)
				next()
				w.Scheduled(train)
				w.Incomplete(train, "1 of 2 pods are bound")
				w.expect("it loses another one at once", metav1.ConditionTrue, "Scheduled", "1 of 2 pods are bound", 4)
				next()
				w.Scheduled(train)
				w.expect("it is complete", metav1.ConditionTrue, "Scheduled", "", 5)
			})
		})
	}
}

func TestOnlyTheLatestConditionIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Close(w.ctx)
		w.Writer = NewWriter(w.client, w.groups)
		w.Unschedulable(train, "no room")
		w.Scheduled(train)
		w.Unschedulable(train, "no room for more")
		w.Start(w.ctx)
		defer w.Close(w.ctx)
		w.expect("all at once", metav1.ConditionTrue, "Scheduled", "", 1)
	})
}

func TestAConditionIsWrittenAgainIfThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close(w.ctx)
		busy := apierrors.NewTooManyRequestsError("busy")
		w.answers = []error{busy, busy, busy, busy}
		w.Scheduled(train)
		<-time.After(time.Minute)
		w.expect("the fifth time", metav1.ConditionTrue, "Scheduled", "", 5)
	})
	for name, test := range map[string]struct {
		err     error
		patches int
	}{
		"for good":  {apierrors.NewInternalError(errors.New("broken")), config.Attempts},
		"forbidden": {apierrors.NewForbidden(schedulingv1alpha2.Resource("podgroups"), train.Name, nil), 1},
		"gone":      {apierrors.NewNotFound(schedulingv1alpha2.Resource("podgroups"), train.Name), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.Close(w.ctx)
				for range 2 * config.Attempts {
					w.answers = append(w.answers, test.err)
				}
				w.Scheduled(train)
				<-time.After(time.Hour)
				synctest.Wait()
				w.Expect(w.patches).To(Equal(test.patches))
				w.answers = nil
				w.Scheduled(train)
				w.expect("at the next attempt", metav1.ConditionTrue, "Scheduled", "", test.patches+1)
			})
		})
	}
}

func TestGroupsThatGetNoCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Writer
		none.Scheduled(train)
		w := newWorld(t)
		defer w.Close(w.ctx)
		w.Scheduled(podgroup.Key{Source: podgroup.SchedulerPlugins, Namespace: train.Namespace, Name: train.Name})
		w.Scheduled(podgroup.Key{Source: podgroup.Kubernetes, Namespace: train.Namespace, Name: "unknown"})
		w.answers = []error{apierrors.NewInternalError(errors.New("broken"))}
		w.Scheduled(train)
		synctest.Wait()
		another := w.stored().DeepCopy()
		another.UID = types.UID("2")
		w.Expect(w.seen.Update(another)).To(Succeed())
		<-time.After(time.Minute)
		synctest.Wait()
		w.Expect(w.patches).To(Equal(1), "the group was replaced by another one")
		w.Expect(w.stored().Status.Conditions).To(BeEmpty())
	})
}
