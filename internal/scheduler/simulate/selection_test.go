// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheFirstPodsAreThoseOfASortedList(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		pods := make([]subject, random.IntN(60))
		bound := make([]boundPod, len(pods))
		for i := range pods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i),
				CreationTimestamp: metav1.Unix(random.Int64N(9), 0)}}
			p.Spec.Priority = new(int32)
			*p.Spec.Priority = random.Int32N(3)
			pods[i].pod, bound[i] = p, boundPod{pod: p, at: scheduled(p)}
		}
		n := random.IntN(70)

		sorted := slices.SortedFunc(slices.Values(pods), byTurn)
		chosen, rest := first(slices.Clone(pods), n, byTurn)
		if limit := min(n, len(pods)); !slices.Equal(chosen, sorted[:limit]) ||
			!slices.Equal(slices.SortedFunc(slices.Values(rest), byTurn), sorted[limit:]) {
			t.Errorf("seed %d: the first %d of %d differ", seed, n, len(pods))
		}
		all := slices.SortedFunc(slices.Values(bound), byScheduling)
		if last, _ := first(slices.Clone(bound), n,
			func(a, b boundPod) int { return byScheduling(b, a) }); !slices.Equal(slices.SortedFunc(slices.Values(last),
			byScheduling), all[max(0, len(all)-n):]) {
			t.Errorf("seed %d: the latest %d of %d differ", seed, n, len(bound))
		}
	}
}
