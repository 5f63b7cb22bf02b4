// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/mapkey"
)

// SignatureID is the number of a signature, starting at 0. [Signatures.Epoch] describes how long a
// number is valid.
type SignatureID uint32

// Signature is everything about a pod on a node that the selectors of other pods, and its own
// terms, depend on. There are few signatures: the pods of one controller share one.
type Signature struct {
	Namespace string
	// Labels must not be modified, nor what Terms refers to.
	Labels map[string]string
	// Terminating means that the pods have a deletion timestamp.
	Terminating bool
	// Terms has the terms of pod affinity and anti-affinity, and nothing else: no Pod. It is nil if
	// there are none.
	Terms *schedframework.PodInfo

	key string
	// pods is the number of pods with the signature. The signature is dropped with the last one.
	pods int32
}

// Signatures numbers the signatures of the pods in a snapshot, and lists them for each node. A
// computation over all pods can run once for each signature instead, with a lookup for each pod.
// Every refresh updates it.
//
// Callers must get it from [Snapshot.Signatures] in each cycle. Between refreshes any number of
// goroutines may read it.
type Signatures struct {
	epoch uint64
	// spare is the number of unused numbers allowed, in addition to as many as are in use, before
	// all signatures are renumbered.
	spare int
	// on holds the signatures of the pods in each slot, in the order of NodeInfo.Pods.
	on [][]SignatureID
	// all holds the signatures by number; unused numbers are empty. numbers maps keys to numbers.
	all     []Signature
	numbers map[string]SignatureID
	// withTerms holds the numbers of the signatures with terms, and of some that no pod has any
	// more, in ascending order.
	withTerms []SignatureID
	// inNamespace holds the numbers of the signatures of each namespace, and of some that no pod
	// has any more, in ascending order.
	inNamespace map[string][]SignatureID
	// recent caches the signature of the last pod of a class.
	recent [recentClasses]recentClass
	// Scratch space.
	key mapkey.Writer
}

// recentClasses is a power of two. Of two classes with the same remainder, the later one is cached.
const recentClasses = 256

type recentClass struct {
	class ClassID
	id    SignatureID
}

const spareSignatures = 1024

// On returns the signatures of the pods on the node in a slot, in the order of the pods. The slice
// must not be modified and is valid until the next refresh.
func (s *Signatures) On(slot Slot) []SignatureID { return s.on[slot] }

// Of returns a signature. It is valid until the next refresh, and must not be modified.
func (s *Signatures) Of(id SignatureID) *Signature { return &s.all[id] }

// Bound returns a number that is greater than every number in use. It is at most about twice the
// number of signatures.
func (s *Signatures) Bound() SignatureID { return SignatureID(len(s.all)) }

// WithTerms returns the numbers of all signatures with terms, and of some that no pod has any more,
// in ascending order. The slice must not be modified and is valid until the next refresh. While
// Epoch does not change, numbers are only appended.
func (s *Signatures) WithTerms() []SignatureID { return s.withTerms }

// InNamespace returns the numbers of all signatures of pods of a namespace, and of some that no pod
// has any more, in ascending order. The slice must not be modified and is valid until the next
// refresh.
func (s *Signatures) InNamespace(name string) []SignatureID { return s.inNamespace[name] }

// Epoch returns a number that changes when the signatures are renumbered, which happens when about
// half of the numbers are unused. Until then no number is reused for another signature. Two
// Signatures of a snapshot never have the same epoch.
func (s *Signatures) Epoch() uint64 { return s.epoch }

// Signatures returns the signatures of all pods. The first call costs all pods; later refreshes
// cost the pods that were added and removed. It may be called on any goroutine that may read the
// snapshot.
func (s *Snapshot) Signatures() *Signatures {
	s.lazy.Lock()
	defer s.lazy.Unlock()
	if s.signatures == nil {
		s.epochs++
		x := &Signatures{epoch: s.epochs, spare: spareSignatures, numbers: make(map[string]SignatureID),
			inNamespace: make(map[string][]SignatureID)}
		x.grow(len(s.infos))
		known := map[sharedParts]SignatureID{}
		for slot, info := range s.infos {
			if info != nil {
				x.enterAll(Slot(slot), info.Pods, known)
			}
		}
		s.signatures = x
	}
	return s.signatures
}

// renumberSignatures closes the gaps in the numbers if there are many.
func (s *Snapshot) renumberSignatures() {
	if x := s.signatures; x != nil && len(x.all) >= 2*len(x.numbers)+x.spare {
		s.epochs++
		x.renumber(s.epochs)
	}
}

// signPods adds the pods of a node without signatures.
func (s *Snapshot) signPods(slot Slot) {
	if x := s.signatures; x != nil {
		x.grow(len(s.infos))
		x.enterAll(slot, s.infos[slot].Pods, map[sharedParts]SignatureID{})
	}
}

// unsignPods removes the pods of a slot.
func (s *Snapshot) unsignPods(slot Slot) {
	if x := s.signatures; x != nil {
		for _, id := range x.on[slot] {
			x.leave(id)
		}
		x.on[slot] = nil
	}
}

// signPod adds a pod that was appended to the pods of a node.
func (s *Snapshot) signPod(slot Slot, pod *schedframework.PodInfo, class ClassID) {
	if x := s.signatures; x != nil {
		x.on[slot] = append(x.on[slot], x.enterOfClass(pod, class))
	}
}

// unsignPod removes the i-th pod of a node, which the last one has replaced.
func (s *Snapshot) unsignPod(slot Slot, i int) {
	if x := s.signatures; x != nil {
		on := x.on[slot]
		last := len(on) - 1
		x.leave(on[i])
		on[i] = on[last]
		x.on[slot] = on[:last]
	}
}

// resignPod records a newer object of the i-th pod of a node, with the same signature.
func (s *Snapshot) resignPod(slot Slot, i int, pod *schedframework.PodInfo) {
	if x := s.signatures; x != nil {
		if own := &x.all[x.on[slot][i]]; own.pods == 1 {
			own.Labels = pod.Pod.Labels // so that nothing of the older object is kept in memory
		}
	}
}

// grow makes room for slots.
func (s *Signatures) grow(slots int) {
	if more := slots - len(s.on); more > 0 {
		s.on = append(s.on, make([][]SignatureID, more)...)
	}
}

// sharedParts are parts that informers make the pods of an owner share. Pods that share them have
// one signature in most cases.
type sharedParts struct {
	owner     *metav1.OwnerReference
	container *corev1.Container
}

func sharedPartsOf(pod *corev1.Pod) (p sharedParts) {
	if owners := pod.OwnerReferences; len(owners) > 0 {
		p.owner = &owners[0]
	}
	if containers := pod.Spec.Containers; len(containers) > 0 {
		p.container = &containers[0]
	}
	return p
}

// enterAll adds the pods of a node without signatures. known has the signature of the last pod with
// the same parts.
func (s *Signatures) enterAll(slot Slot, pods []fwk.PodInfo, known map[sharedParts]SignatureID) {
	if len(pods) == 0 {
		return
	}
	on := make([]SignatureID, len(pods))
	for i, pod := range pods {
		parts := sharedPartsOf(pod.GetPod())
		id, ok := known[parts]
		if ok && s.all[id].isOf(pod) {
			s.all[id].pods++
		} else {
			id = s.enter(pod)
			known[parts] = id
		}
		on[i] = id
	}
	s.on[slot] = on
}

// enterOfClass counts a pod for its signature. Most pods of a class have the signature of the last
// one.
func (s *Signatures) enterOfClass(pod *schedframework.PodInfo, class ClassID) SignatureID {
	if class == 0 {
		return s.enter(pod)
	}
	recent := &s.recent[class%recentClasses]
	if recent.class == class {
		if own := &s.all[recent.id]; own.isOf(pod) {
			own.pods++
			return recent.id
		}
	}
	id := s.enter(pod)
	*recent = recentClass{class, id}
	if own := &s.all[id]; own.Terms != nil {
		own.Terms = termsOf(pod) // those that the pods of the class share
	}
	return id
}

// enter counts a pod for its signature.
func (s *Signatures) enter(pod fwk.PodInfo) SignatureID {
	s.writeKey(pod.GetPod())
	id, ok := s.numbers[string(s.key.Bytes())]
	if !ok {
		id = s.number(pod)
	}
	s.all[id].pods++
	return id
}

// number assigns a number to the signature whose key was just written.
func (s *Signatures) number(info fwk.PodInfo) SignatureID {
	id := SignatureID(len(s.all))
	pod := info.GetPod()
	own := Signature{
		Namespace: pod.Namespace, Labels: pod.Labels, Terminating: pod.DeletionTimestamp != nil, Terms: termsOf(info),
		key: string(s.key.Bytes()),
	}
	s.all = append(s.all, own)
	s.numbers[own.key] = id
	s.list(&own, id)
	return id
}

// list adds a signature to the lists in which it belongs.
func (s *Signatures) list(own *Signature, id SignatureID) {
	s.inNamespace[own.Namespace] = append(s.inNamespace[own.Namespace], id)
	if own.Terms != nil {
		s.withTerms = append(s.withTerms, id)
	}
}

// leave reverts enter.
func (s *Signatures) leave(id SignatureID) {
	own := &s.all[id]
	own.pods--
	if own.pods == 0 {
		delete(s.numbers, own.key)
		*own = Signature{}
	}
}

// renumber closes the gaps.
func (s *Signatures) renumber(epoch uint64) {
	s.epoch = epoch
	s.recent = [recentClasses]recentClass{}
	all := make([]Signature, 0, len(s.numbers)+s.spare)
	to := make([]SignatureID, len(s.all))
	s.withTerms, s.inNamespace = s.withTerms[:0], make(map[string][]SignatureID)
	for id := range s.all {
		if own := s.all[id]; own.pods > 0 {
			to[id] = SignatureID(len(all))
			s.numbers[own.key] = to[id]
			all = append(all, own)
			s.list(&own, to[id])
		}
	}
	s.all = all
	for _, on := range s.on {
		for i, id := range on {
			on[i] = to[id]
		}
	}
}

// Gone reports whether no pod has the signature any more. It is empty then.
func (s *Signature) Gone() bool { return s.pods == 0 }

// isOf reports whether a pod has the signature. It may return false for a pod that has it.
func (s *Signature) isOf(info fwk.PodInfo) bool {
	pod := info.GetPod()
	return s.pods > 0 && s.Namespace == pod.Namespace && s.Terminating == (pod.DeletionTimestamp != nil) &&
		s.sharesTerms(info) && maps.Equal(s.Labels, pod.Labels)
}

// sharesTerms reports whether a pod shares the terms of the signature in memory, as pods of a class
// do.
func (s *Signature) sharesTerms(pod fwk.PodInfo) bool {
	terms := s.Terms
	if terms == nil {
		return !HasTerms(pod)
	}
	return shared(terms.RequiredAffinityTerms, pod.GetRequiredAffinityTerms()) &&
		shared(terms.RequiredAntiAffinityTerms, pod.GetRequiredAntiAffinityTerms()) &&
		shared(terms.PreferredAffinityTerms, pod.GetPreferredAffinityTerms()) &&
		shared(terms.PreferredAntiAffinityTerms, pod.GetPreferredAntiAffinityTerms())
}

func shared[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// termsOf returns the terms of a pod, nil if there are none.
func termsOf(pod fwk.PodInfo) *schedframework.PodInfo {
	if !HasTerms(pod) {
		return nil
	}
	return &schedframework.PodInfo{
		RequiredAffinityTerms:      pod.GetRequiredAffinityTerms(),
		RequiredAntiAffinityTerms:  pod.GetRequiredAntiAffinityTerms(),
		PreferredAffinityTerms:     pod.GetPreferredAffinityTerms(),
		PreferredAntiAffinityTerms: pod.GetPreferredAntiAffinityTerms(),
	}
}

// HasTerms reports whether a pod has terms of pod affinity or anti-affinity.
func HasTerms(pod fwk.PodInfo) bool {
	return len(pod.GetRequiredAffinityTerms())+len(pod.GetRequiredAntiAffinityTerms())+
		len(pod.GetPreferredAffinityTerms())+len(pod.GetPreferredAntiAffinityTerms()) > 0
}

// writeKey writes the key of a pod's signature.
func (s *Signatures) writeKey(pod *corev1.Pod) {
	w := &s.key
	w.Reset()
	w.Text(pod.Namespace)
	w.Flag(pod.DeletionTimestamp != nil)
	w.Map(pod.Labels, nil)
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return
	}
	ok := true
	if affinity.PodAffinity != nil {
		w.Number(1)
		ok = w.Message(affinity.PodAffinity)
	}
	if affinity.PodAntiAffinity != nil {
		w.Number(2)
		ok = w.Message(affinity.PodAntiAffinity) && ok
	}
	if !ok {
		w.Number(3)
		w.Text(string(pod.UID)) // a unique signature
	}
}
