// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// BenchmarkResolve resolves many profiles on few and on many policies.
func BenchmarkResolve(b *testing.B) {
	for _, size := range []struct{ profiles, policies int }{{20, 1}, {1000, 1}, {1000, 200}} {
		b.Run(fmt.Sprintf("%d profiles, %d policies", size.profiles, size.policies), func(b *testing.B) {
			in := manyObjects(size.profiles, size.policies)
			in.Registered = inTree
			for b.Loop() {
				if r := Objects(in); len(r.Profiles) != size.profiles {
					b.Fatalf("%d of %d profiles are to run", len(r.Profiles), size.profiles)
				}
			}
		})
		b.Run(fmt.Sprintf("one of %d profiles has changed, %d policies", size.profiles,
			size.policies), func(b *testing.B) {
			in := manyObjects(size.profiles, size.policies)
			in.Registered = inTree
			in.Last = Objects(in)
			for b.Loop() {
				in.Profiles[0].Generation++
				in.Last = Objects(in)
			}
		})
	}
}

// manyObjects returns profiles that build in equal parts on policies.
func manyObjects(profiles, policies int) Input {
	var in Input
	for i := range policies {
		in.Policies = append(in.Policies, v1alpha1.SchedulingPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("policy-%03d", i), UID: types.UID(fmt.Sprint("policy", i)),
				Generation: 1},
			Spec: v1alpha1.SchedulingPolicySpec{Parallelism: ptr.To(int32(1 + i%16))},
		})
	}
	for i := range profiles {
		p := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("profile-%04d", i),
			UID: types.UID(fmt.Sprint("profile", i)), Generation: 1}}
		p.Spec.PolicyRef.Name = in.Policies[i%policies].Name
		p.Spec.PluginConfig = []v1alpha1.PluginConfig{{
			Name: "NodeResourcesFit",
			Args: runtime.RawExtension{
				Raw: fmt.Appendf(nil,
					`{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":%d}]}}`, 1+i%100)},
		}}
		in.Profiles = append(in.Profiles, p)
	}
	return in
}
