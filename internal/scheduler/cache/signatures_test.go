// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// signedView is the state at the last check: the signature of each number, in words.
type signedView struct {
	epoch uint64
	words map[SignatureID]string
}

// signatureInWords returns the fields that a pod's signature distinguishes.
func signatureInWords(pod *corev1.Pod) string {
	affinity := corev1.Affinity{}
	if pod.Spec.Affinity != nil {
		affinity = *pod.Spec.Affinity
		affinity.NodeAffinity = nil
	}
	text, err := json.Marshal(affinity)
	return fmt.Sprint(pod.Namespace, pod.Labels, pod.DeletionTimestamp != nil, string(text), err)
}

// checkSignatures compares the signatures with the pods in the snapshot.
func (tt *twinTest) checkSignatures() {
	x := tt.snapshot.Signatures()
	x.spare = 3 // so that they are renumbered now and then
	words := map[SignatureID]string{}
	ids := map[string]SignatureID{}
	counts := map[SignatureID]int32{}
	for slot := range tt.snapshot.Slots() {
		var pods []fwk.PodInfo
		if info := tt.snapshot.Info(Slot(slot)); info != nil {
			pods = info.Pods
		}
		on := x.On(Slot(slot))
		if len(on) != len(pods) {
			tt.Errorf("slot %d has %d pods and %d signatures", slot, len(pods), len(on))
			return
		}
		for i, id := range on {
			pod, of := pods[i].GetPod(), x.Of(id)
			counts[id]++
			text := signatureInWords(pod)
			if known, ok := ids[text]; ok && known != id || words[id] != "" && words[id] != text {
				tt.Errorf("pod %s has signature %d, which is %s; %d is %s", pod.Name, id, words[id], known, text)
			}
			ids[text], words[id] = id, text
			if of.Gone() || of.Namespace != pod.Namespace || !maps.Equal(of.Labels, pod.Labels) ||
				of.Terminating != (pod.DeletionTimestamp != nil) ||
				!reflect.DeepEqual(of.Terms, termsOf(infoOf(pod))) || of.Terms != nil && of.Terms.Pod != nil {
				tt.Errorf("pod %s has signature %+v", pod.Name, of)
			}
			if of.Terms != nil && !slices.Contains(x.WithTerms(), id) {
				tt.Errorf("signature %d is not among those with terms", id)
			}
			if in := x.InNamespace(pod.Namespace); !slices.Contains(in, id) || !slices.IsSorted(in) {
				tt.Errorf("signature %d is not among those of its namespace, %v", id, in)
			}
		}
	}
	for id := range x.Bound() {
		if of := x.Of(id); of.pods != counts[id] || of.Gone() && !reflect.DeepEqual(*of, Signature{}) {
			tt.Errorf("signature %d has %d pods: %+v", id, counts[id], of)
		}
	}
	listed := 0
	for _, in := range x.inNamespace {
		listed += len(in)
	}
	if listed != int(x.Bound()) {
		tt.Errorf("%d of %d numbers are listed by namespace", listed, x.Bound())
	}
	if len(x.numbers) != len(words) || !slices.IsSorted(x.WithTerms()) {
		tt.Errorf("%d signatures, want %d; with terms: %v", len(x.numbers), len(words), x.WithTerms())
	}
	for id, before := range tt.signed.words {
		if now, ok := words[id]; x.Epoch() == tt.signed.epoch && ok && now != before {
			tt.Errorf("signature %d was %s, and is %s", id, before, now)
		}
	}
	if tt.signed.words != nil && x.Epoch() != tt.signed.epoch {
		tt.hits["signatures numbered anew"]++
	}
	tt.signed = signedView{x.Epoch(), words}
}

func TestPodsWithTheSameEffectOnOthersShareASignature(t *testing.T) {
	base := func() *corev1.Pod { return newPod("base", "n", labelled("a"), withAffinity) }
	for name, test := range map[string]struct {
		same bool
		edit func(*corev1.Pod)
	}{
		"nothing":         {true, func(*corev1.Pod) {}},
		"requests":        {true, requesting("2")},
		"status":          {true, running},
		"a host port":     {true, listening(80)},
		"priority":        {true, prioritized(3)},
		"annotations":     {true, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }},
		"node affinity":   {true, func(p *corev1.Pod) { p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{} }},
		"namespace":       {false, func(p *corev1.Pod) { p.Namespace = "other" }},
		"a label's value": {false, labelled("b")},
		"another label":   {false, func(p *corev1.Pod) { p.Labels = map[string]string{"apple": ""} }},
		"one label more":  {false, func(p *corev1.Pod) { p.Labels["b"] = "" }},
		"no labels":       {false, func(p *corev1.Pod) { p.Labels = nil }},
		"being deleted":   {false, terminating},
		"no terms":        {false, func(p *corev1.Pod) { p.Spec.Affinity = nil }},
		"anti-affinity":   {false, withRequiredAntiAffinity},
		"a weight": {false, func(p *corev1.Pod) {
			p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight = 2
		}},
		"a selector of all": {false, func(p *corev1.Pod) {
			term := &p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0]
			term.PodAffinityTerm.LabelSelector = &metav1.LabelSelector{}
		}},
		"affinity that is anti-affinity": {false, func(p *corev1.Pod) {
			terms := p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			p.Spec.Affinity = &corev1.Affinity{
				PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
		}},
	} {
		f := newFixture(t, newNode("n", ""))
		f.snapshot.Signatures()
		f.must(f.AddPod(quiet, base()))
		f.must(f.AddPod(quiet,
			objects.Edited(base(), test.edit, func(p *corev1.Pod) { p.Name, p.UID = "other", "other" })))
		f.refresh()
		on := f.snapshot.Signatures().On(0)
		if len(on) != 2 || (on[0] == on[1]) != test.same {
			t.Errorf("%s: signatures %v", name, on)
		}
	}
}

// TestSignaturesOfAClass makes sure that the last pod's signature is only a hint: pods of a class
// may differ in labels.
func TestSignaturesOfAClass(t *testing.T) {
	f := newFixture(t, newNode("n", ""))
	x := f.snapshot.Signatures()
	class := Class{ID: 7, Like: infoOf(newPod("like", "", withRequiredAntiAffinity))}
	place := func(name string, id ClassID, edits ...func(*corev1.Pod)) SignatureID {
		class.ID = id
		f.must(f.AssumePodOfClass(quiet, newPod(name, "n", append(edits, withRequiredAntiAffinity)...), class))
		f.refresh()
		on := x.On(0)
		return on[len(on)-1]
	}
	a, b := place("a", 7, labelled("a")), place("b", 7, labelled("b"))
	if a == b || place("a2", 7, labelled("a")) != a || place("b2", 7+recentClasses, labelled("b")) != b ||
		place("b3", 7, labelled("b")) != b {
		t.Errorf("signatures %v", x.On(0))
	}
	if place("c", 7, labelled("b"), terminating) == b || len(x.numbers) != 3 {
		t.Errorf("signatures %v", x.On(0))
	}
}

func TestNewerObjectOfAPodReplacesTheOlder(t *testing.T) {
	f := newFixture(t, newNode("n", ""))
	x := f.snapshot.Signatures()
	pod := newPod("p", "n", labelled("a"))
	f.assume(pod)
	f.refresh()
	confirmed := objects.Edited(pod, running)
	f.must(f.AddPod(quiet, confirmed))
	f.refresh()
	if of := x.Of(x.On(0)[0]); reflect.ValueOf(of.Labels).Pointer() != reflect.ValueOf(confirmed.Labels).Pointer() {
		t.Error("the labels of the assumed pod are kept")
	}
}

func BenchmarkSignatures(b *testing.B) {
	for name, labels := range map[string]func(i int) string{
		"of series": func(i int) string { return fmt.Sprint(i / 100) },
		"unique":    func(i int) string { return fmt.Sprint(i) },
	} {
		b.Run(name, func(b *testing.B) {
			const nodes, pods = 1000, 10_000
			c, s := New(), NewSnapshot()
			for i := range nodes {
				c.AddNode(quiet, newNode(fmt.Sprint(i), ""))
			}
			for i := range pods {
				if err := c.AddPod(quiet,
					newPod(fmt.Sprintf("pod-%d", i), fmt.Sprint(i%nodes), labelled(labels(i)))); err != nil {
					b.Fatal(err)
				}
			}
			update(b, c, s)
			b.ReportAllocs()
			for b.Loop() {
				s.signatures = nil
				s.Signatures()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pods, "ns/pod")
		})
	}
}
