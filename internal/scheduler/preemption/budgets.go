// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/scheduler/changelog"
)

// Budgets knows the PodDisruptionBudgets of the cluster by namespace, and which of them have
// changed. Events of their informer keep it up to date. The process has one, so that neither a
// preemption nor a profile costs a look at all budgets. Its methods are safe for concurrent use.
type Budgets struct {
	mu sync.RWMutex // guards the fields below
	// byNamespace lists the budgets by name. Lists are replaced, not modified.
	byNamespace map[string][]*budget
	// changes are the latest changes. Readers use what since has returned without the lock.
	changes changelog.Log[budgetChange]
}

// budget is a disruption budget as preemption needs it. It is immutable.
type budget struct {
	// object has a selector for all pods in place of an empty one.
	object   *policyv1.PodDisruptionBudget
	selector labels.Selector
}

// budgetChange is a change of a budget that may matter to a preemption.
type budgetChange struct {
	name types.NamespacedName
	// selects means that the budget may select other pods than before, or is new or deleted.
	selects bool
}

// maxBudgetChanges is the number of changes that a reader may be behind.
const maxBudgetChanges = 2048

// everyPod selects all pods, as none has a label with this key.
var everyPod = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
	{Key: "livesched.io/no-pod-has-this-label", Operator: metav1.LabelSelectorOpDoesNotExist},
}}

// NewBudgets returns Budgets that follow an informer. They are complete when the informer's
// handlers have synced.
func NewBudgets(informer policyinformers.PodDisruptionBudgetInformer) (*Budgets, error) {
	b := &Budgets{byNamespace: map[string][]*budget{}}
	if _, err := informer.Informer().AddEventHandler(b); err != nil {
		return nil, fmt.Errorf("listening to disruption budgets: %w", err)
	}
	return b, nil
}

// OnAdd implements toolscache.ResourceEventHandler.
func (b *Budgets) OnAdd(object any, _ bool) { b.OnUpdate(nil, object) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (b *Budgets) OnUpdate(_, object any) {
	if pdb, ok := object.(*policyv1.PodDisruptionBudget); ok {
		b.set(types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}, newBudget(pdb))
	}
}

// OnDelete implements toolscache.ResourceEventHandler.
func (b *Budgets) OnDelete(object any) {
	if name, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
		b.set(types.NamespacedName{Namespace: name.Namespace, Name: name.Name}, nil)
	}
}

// newBudget returns nil for a budget that selects no pod: one without a selector, or one that the
// API server would refuse. Upstream takes an empty selector for one that selects no pod, too. By
// policy/v1 it selects all pods of the namespace.
func newBudget(pdb *policyv1.PodDisruptionBudget) *budget {
	if s := pdb.Spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		changed := *pdb // shallow: the object of the informer is not changed
		changed.Spec.Selector = everyPod
		pdb = &changed
	}
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil || selector.Empty() || pdb.Spec.Selector == nil {
		return nil
	}
	return &budget{object: pdb, selector: selector}
}

// set stores a budget, nil: it is gone.
func (b *Budgets) set(name types.NamespacedName, now *budget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.byNamespace[name.Namespace]
	i, found := find(list, name.Name)
	var before *budget
	if found {
		before = list[i]
	}
	if now == before { // both are nil
		return
	}
	change := budgetChange{name: name, selects: !selectsAlike(before, now)}
	if change.selects || !allowsAlike(before.object, now.object) {
		b.changes.AddShared(change, maxBudgetChanges)
	}
	list = slices.Clone(list)
	switch {
	case now == nil:
		list = slices.Delete(list, i, i+1)
	case found:
		list[i] = now
	default:
		list = slices.Insert(list, i, now)
	}
	if b.byNamespace[name.Namespace] = list; len(list) == 0 {
		delete(b.byNamespace, name.Namespace)
	}
}

// selectsAlike reports whether two budgets are the same one with the same selector.
func selectsAlike(a, b *budget) bool {
	return a != nil && b != nil && a.object.UID == b.object.UID &&
		apiequality.Semantic.DeepEqual(a.object.Spec.Selector, b.object.Spec.Selector)
}

// allowsAlike reports whether two states of a budget allow the same disruptions.
func allowsAlike(a, b *policyv1.PodDisruptionBudget) bool {
	return a.Status.DisruptionsAllowed == b.Status.DisruptionsAllowed &&
		maps.EqualFunc(a.Status.DisruptedPods, b.Status.DisruptedPods, func(_, _ metav1.Time) bool { return true })
}

func find(list []*budget, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(b *budget, name string) int {
		return strings.Compare(b.object.Name, name)
	})
}

// of returns the budgets of a namespace by name. Upstream stops at the first budget that a pod
// violates, and counts the pod only against the ones before it: the same budgets in another order
// may lead to other victims.
func (b *Budgets) of(namespace string) []*budget {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byNamespace[namespace]
}

// get returns a budget, nil if it does not exist or selects no pod.
func (b *Budgets) get(name types.NamespacedName) *budget {
	list := b.of(name.Namespace)
	if i, found := find(list, name.Name); found {
		return list[i]
	}
	return nil
}

// since returns the changes from a position on, and the position after the last one. False means
// that some of them are not known any more. The changes remain valid.
func (b *Budgets) since(pos uint64) (changes []budgetChange, end uint64, ok bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	changes, ok = b.changes.Since(pos)
	return changes, b.changes.End(), ok
}
