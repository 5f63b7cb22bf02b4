// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupcondition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	leaks.Main(m)
}

var train = podgroup.Key{Source: podgroup.Kubernetes, Namespace: "ml", Name: "train"}

// world is a Writer with an API server that has a group, and informers of what they have seen.
type world struct {
	*WithT
	*Writer
	ctx     context.Context
	client  rest.Interface
	stored  schedulingv1beta1.PodGroup
	seen    toolscache.Indexer
	patches int
	// answers are the errors of the next patches.
	answers []*apierrors.StatusError
}

func newWorld(t *testing.T) *world {
	w := &world{WithT: NewWithT(t), ctx: klog.NewContext(t.Context(), logr.Discard())}
	w.client = &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), Client: restfake.CreateHTTPClient(w.patch),
	}
	w.stored = schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: train.Namespace, Name: train.Name,
		UID: "1", Generation: 7}}
	var groups podgroup.KubernetesInformers
	for range podgroup.KubernetesAPIs {
		groups = append(groups, toolscache.NewSharedIndexInformer(nil, &unstructured.Unstructured{}, 0, nil))
	}
	w.seen = groups[1].GetIndexer()
	w.catchUp()
	w.Writer = NewWriter(w.client, groups)
	w.Start(w.ctx)
	return w
}

// patch is the API server.
func (w *world) patch(request *http.Request) (*http.Response, error) {
	w.patches++
	w.Expect(request.Method).To(Equal(http.MethodPatch))
	w.Expect(request.URL.Path).
		To(Equal("/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/train/status"))
	answer, code := any(&w.stored), http.StatusOK
	if len(w.answers) > 0 {
		answer, code = &w.answers[0].ErrStatus, int(w.answers[0].ErrStatus.Code)
		w.answers = w.answers[1:]
	} else {
		patch, err := io.ReadAll(request.Body)
		w.Expect(err).NotTo(HaveOccurred())
		before, err := json.Marshal(&w.stored)
		w.Expect(err).NotTo(HaveOccurred())
		after, err := strategicpatch.StrategicMergePatch(before, patch, &w.stored)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(json.Unmarshal(after, &w.stored)).To(Succeed())
	}
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(text))}, err
}

// catchUp lets informers see what the API server has.
func (w *world) catchUp() { w.see(&w.stored) }

func (w *world) see(group *schedulingv1beta1.PodGroup) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(group)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.seen.Update(&unstructured.Unstructured{Object: object})).To(Succeed())
}

// expect waits until nothing is left to do, and compares the condition and the number of patches.
func (w *world) expect(when string, status metav1.ConditionStatus, reason, message string, patches int) {
	synctest.Wait()
	w.Expect(w.stored.Status.Conditions).To(ConsistOf(And(
		HaveField("Type", schedulingv1beta1.PodGroupInitiallyScheduled), HaveField("Status", status),
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
				since := w.stored.Status.Conditions[0].LastTransitionTime
				next()
				w.Unschedulable(train, "no room")
				w.expect("it does not fit again", metav1.ConditionFalse, "Unschedulable", "no room", 1)
				next()
				<-time.After(config.Recent / 2)
				w.Failed(train, errors.New("broken"))
				w.expect("an error", metav1.ConditionFalse, "SchedulerError", "broken", 2)
				w.Expect(w.stored.Status.Conditions[0].LastTransitionTime.Equal(&since)).
					To(BeTrue(), "the status is the same")
				next()
				w.Scheduled(train)
				w.expect("it fits", metav1.ConditionTrue, "Scheduled", "", 3)
				w.Expect(w.stored.Status.Conditions[0].LastTransitionTime.Time).To(BeTemporally(">", since.Time))
				next()
				w.Unschedulable(train, "no room for more")
				w.Scheduled(train)
				w.expect("further pods do not fit", metav1.ConditionTrue, "Scheduled", "", 3)
				next()
				w.Incomplete(train, "1 of 2 pods are bound")
				w.expect("it has lost a pod", metav1.ConditionTrue, "Scheduled", "1 of 2 pods are bound", 4)
				next()
				w.Scheduled(train)
				w.expect("it is complete", metav1.ConditionTrue, "Scheduled", "", 5)
			})
		})
	}
}

func TestMergingConditions(t *testing.T) {
	const lost = "1 of 2 pods are bound"
	scheduled := metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonScheduled}
	for name, test := range map[string]struct{ earlier, next, want metav1.Condition }{
		"it loses a pod at once": {scheduled, metav1.Condition{Message: lost},
			metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonScheduled, Message: lost}},
		"further pods do not fit": {scheduled, metav1.Condition{Status: metav1.ConditionFalse, Message: "no room"},
			scheduled},
		"it loses pods before it is known whether it was scheduled": {metav1.Condition{Message: "no pod is bound"},
			metav1.Condition{Message: lost}, metav1.Condition{Message: lost}},
	} {
		if got := (target{}).Merge(test.earlier, test.next); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
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
		w.answers = []*apierrors.StatusError{busy, busy, busy, busy}
		w.Scheduled(train)
		<-time.After(time.Minute)
		w.expect("the fifth time", metav1.ConditionTrue, "Scheduled", "", 5)
	})
	for name, test := range map[string]struct {
		err     *apierrors.StatusError
		patches int
	}{
		"for good":  {apierrors.NewInternalError(errors.New("broken")), config.Attempts},
		"forbidden": {apierrors.NewForbidden(schedulingv1beta1.Resource("podgroups"), train.Name, nil), 1},
		"gone":      {apierrors.NewNotFound(schedulingv1beta1.Resource("podgroups"), train.Name), 1},
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

// As when etcd was restored from a backup.
func TestAConditionThatIsGoneIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close(w.ctx)
		w.Unschedulable(train, "no room")
		w.expect("it does not fit", metav1.ConditionFalse, "Unschedulable", "no room", 1)
		w.catchUp()
		w.stored.Status.Conditions = nil
		w.catchUp()
		<-time.After(config.Recent + time.Second)
		w.Unschedulable(train, "no room")
		w.expect("it still does not fit", metav1.ConditionFalse, "Unschedulable", "no room", 2)
	})
}

func TestGroupsThatGetNoCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Writer
		none.Scheduled(train)
		w := newWorld(t)
		defer w.Close(w.ctx)
		w.Scheduled(podgroup.Key{Source: podgroup.SchedulerPlugins, Namespace: train.Namespace, Name: train.Name})
		w.Scheduled(podgroup.Key{Source: podgroup.Kubernetes, Namespace: train.Namespace, Name: "unknown"})
		w.answers = []*apierrors.StatusError{apierrors.NewInternalError(errors.New("broken"))}
		w.Scheduled(train)
		synctest.Wait()
		another := w.stored.DeepCopy()
		another.UID = types.UID("2")
		w.see(another)
		<-time.After(time.Minute)
		synctest.Wait()
		w.Expect(w.patches).To(Equal(1), "the group was replaced by another one")
		w.Expect(w.stored.Status.Conditions).To(BeEmpty())
	})
}
