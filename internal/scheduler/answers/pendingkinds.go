// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/podkind"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// kindsFor is how long counted kinds are kept at least: all requests in that time get the same.
const kindsFor = 3 * time.Second

// kinds counts the kinds of pending pods. Any goroutine may use it. Its zero value is ready.
type kinds struct {
	mu      sync.Mutex // guards the fields below, and is held while pods are counted
	counted *countedKinds
	until   time.Time // how long they are kept
}

// countedKinds are the kinds of the pods at one time. They do not change.
type countedKinds struct {
	list *v1alpha1.PendingKindList
	// keys are the podkind.Keys of the pods that were counted. They take longest to compute.
	keys map[types.UID]podKey
	// pods are the pods of each kind, by its ID.
	pods map[string][]queue.PodState
}

// podKey is the key of a pod at a generation of its spec.
type podKey struct {
	generation int64
	key        string
}

// kindKey is equal for the pods of a kind: their podkind.Key, and their group.
type kindKey struct{ key, group string }

// id returns the ID of the kind.
func (k kindKey) id() string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(k.key + "\x00" + k.group)) // it does not fail
	return strconv.FormatUint(hash.Sum64(), 36)
}

// keyOf returns the key of a pod, which was computed when its kind was counted, or is computed now.
func (c *countedKinds) keyOf(pod *corev1.Pod) podKey {
	if c != nil {
		if key, known := c.keys[pod.UID]; known && key.generation == pod.Generation {
			return key
		}
	}
	return podKey{pod.Generation, podkind.Key(pod)}
}

// PendingKinds implements apiserving.Answers.
func (a *Answers) PendingKinds(namespace string, limit int) (*v1alpha1.PendingKindList, error) {
	if !a.Leading.Load() {
		return nil, errFollows()
	}
	all := a.countKinds().list
	list := &v1alpha1.PendingKindList{Items: []v1alpha1.PendingKind{}, Time: all.Time}
	for i := range all.Items {
		kind := &all.Items[i]
		if namespace != "" && kind.Namespace != namespace {
			continue
		}
		list.Kinds++
		list.Pods += kind.Pods
		if len(list.Items) < limit {
			list.Items = append(list.Items, *kind)
		}
	}
	return list, nil
}

func errFollows() error {
	return apierrors.NewServiceUnavailable("this replica does not schedule pods: another one leads")
}

// countKinds returns all kinds.
func (a *Answers) countKinds() *countedKinds {
	k := &a.kinds
	k.mu.Lock()
	defer k.mu.Unlock()
	now := a.Clock.Now()
	if k.counted != nil && now.Before(k.until) {
		return k.counted
	}
	counted := &countedKinds{list: &v1alpha1.PendingKindList{Time: metav1.NewTime(now)},
		keys: map[types.UID]podKey{}, pods: map[string][]queue.PodState{}}
	byKey := map[kindKey]*v1alpha1.PendingKind{}
	uids := map[kindKey]types.UID{} // of the pods that stand for their kinds
	for _, state := range a.Queue.Pods() {
		pod := state.Pod
		key := k.counted.keyOf(pod)
		counted.keys[pod.UID] = key
		of := kindKey{key.key, podgroup.KeyOf(pod).Name}
		kind := byKey[of]
		if kind == nil {
			kind = a.newKind(pod)
			kind.ID = of.id()
			byKey[of], uids[of] = kind, pod.UID
		}
		counted.pods[kind.ID] = append(counted.pods[kind.ID], state)
		if podkind.CompareNames(pod.Name, kind.Pod) < 0 {
			kind.Pod, uids[of] = pod.Name, pod.UID
		}
		count(kind, &state)
	}
	for of, kind := range byKey {
		if d, ok := a.Log.OfPod(uids[of]); ok {
			kind.Result, kind.Message = v1alpha1.DecisionResult(d.Result.String()), d.Message
		}
		counted.list.Items = append(counted.list.Items, *kind)
	}
	slices.SortFunc(counted.list.Items, func(a, b v1alpha1.PendingKind) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), a.Since.Compare(b.Since.Time),
			cmp.Compare(a.Namespace, b.Namespace), podkind.CompareNames(a.Pod, b.Pod))
	})
	k.counted, k.until = counted, a.keepUntil(now, kindsFor)
	return counted
}

// newKind returns the kind of a pod, without pods.
func (a *Answers) newKind(pod *corev1.Pod) *v1alpha1.PendingKind {
	kind := &v1alpha1.PendingKind{
		Namespace: pod.Namespace, Pod: pod.Name, PodGroup: podgroup.KeyOf(pod).Name,
		SchedulerName: pod.Spec.SchedulerName, Since: pod.CreationTimestamp,
		Requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
		Priority: ptr.Deref(pod.Spec.Priority, 0),
	}
	if metav1.GetControllerOf(pod) != nil {
		kind.Owner = podkind.Owner(pod)
	}
	if p := a.Profiles.Current().Get(pod.Spec.SchedulerName); p != nil {
		kind.Profile = p.Config.Name
	}
	return kind
}

// count adds a pod to its kind.
func count(kind *v1alpha1.PendingKind, state *queue.PodState) {
	kind.Pods++
	kind.Attempts = max(kind.Attempts, int32(state.Attempts))
	if state.Pod.CreationTimestamp.Before(&kind.Since) {
		kind.Since = state.Pod.CreationTimestamp
	}
	switch state.Place {
	case queue.Active:
		kind.Active++
	case queue.Backoff, queue.ErrorBackoff:
		kind.Backoff++
	case queue.Unschedulable:
		kind.Unschedulable++
	case queue.Gated:
		kind.Gated++
	}
}
