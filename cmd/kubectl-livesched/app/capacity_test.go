// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

func TestTheGroupOfAPodInFiles(t *testing.T) {
	const (
		job = `---
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec:
  template:
    metadata: {labels: {scheduling.x-k8s.io/pod-group: train}}
    spec: {containers: [{name: c}]}
`
		member = `---
apiVersion: v1
kind: Pod
metadata: {name: train-0, namespace: ml}
spec: {schedulingGroup: {podGroupName: train}}
`
		plugins    = "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\n"
		kubernetes = "---\napiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\n"
	)
	for name, test := range map[string]struct {
		text  string
		want  *v1alpha1.CapacityPodGroup
		error string
	}{
		"of scheduler-plugins": {
			text: job + plugins +
				`metadata: {name: train, namespace: ml, annotations: {livesched.io/required-topology: rack, livesched.io/preferred-topology: "host, block"}}
spec: {minMember: 64}
`,
			want: &v1alpha1.CapacityPodGroup{MinMember: 64, RequiredTopology: "rack",
				PreferredTopology: []string{"host", "block"}},
		},
		"of Kubernetes": {
			text: member + kubernetes + `metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}
`,
			want: &v1alpha1.CapacityPodGroup{MinMember: 2, RequiredTopology: "rack"},
		},
		"of Kubernetes, one by one": {text: member + kubernetes +
			"metadata: {name: train}\nspec: {schedulingPolicy: {basic: {}}}\n"},
		"of another name": {text: job + plugins +
			"metadata: {name: other, namespace: ml}\nspec: {minMember: 64}\n"},
		"of another namespace": {text: job + plugins +
			"metadata: {name: train, namespace: other}\nspec: {minMember: 64}\n"},
		"of the other API": {text: job + kubernetes +
			"metadata: {name: train, namespace: ml}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n"},
		"none": {text: job},
		"wrong": {
			text: job + plugins +
				"metadata: {name: train, namespace: ml, annotations: {livesched.io/required-topology: no key}}\n",
			error: `-:10 (document 2): annotation livesched.io/required-topology: "no key" is not the key of a label`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := manifests.Read([]string{"-"}, false, strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			pod, err := (&capacityOptions{}).countedPod(documents, false)
			if err != nil {
				t.Fatal(err)
			}
			got, oneByOne, err := groupOfPod(documents, pod)
			if test.error != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.error) {
					t.Errorf("got %v, want %s", err, test.error)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil ||
				oneByOne != (name == "of Kubernetes, one by one") {
				t.Error(err, diff, oneByOne)
			}
		})
	}
}

func TestTheClaimTemplatesOfAPodInFiles(t *testing.T) {
	const (
		pod = `---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  containers: [{name: c}]
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: gpu}
  - {name: other, resourceClaimTemplateName: gpu}
  - {name: shared, resourceClaimName: shared}
`
		head = "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n"
		spec = "spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}\n"
	)
	for name, test := range map[string]struct{ text, class, error string }{
		"of the pod's namespace": {text: pod + head + "metadata: {name: gpu, namespace: ml}\n" + spec, class: "gpu"},
		"of no namespace":        {text: pod + head + "metadata: {name: gpu}\n" + spec, class: "gpu"},
		"with a mistyped field": {
			text:  pod + head + "metadata: {name: gpu}\nspec: {spec: {device: {}}}\n",
			error: `-:15: unknown field "spec.spec.device"`,
		},
		"of another version": {
			text:  pod + strings.Replace(head, "/v1", "/v1beta1", 1) + "metadata: {name: gpu}\n" + spec,
			error: `-:12 (document 2): apiVersion "resource.k8s.io/v1beta1": must be resource.k8s.io/v1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := manifests.Read([]string{"-"}, false, strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			o := &capacityOptions{}
			counted, err := o.countedPod(documents, false)
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.claimTemplates(t.Context(), documents, counted, "ml")
			if test.error != "" {
				if err == nil || err.Error() != test.error {
					t.Errorf("got %v, want %s", err, test.error)
				}
				return
			}
			if err != nil || len(got) != 1 || got[0].Name != "gpu" ||
				got[0].Spec.Devices.Requests[0].Exactly.DeviceClassName != test.class {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
