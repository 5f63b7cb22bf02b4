// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

// Objects with pod templates. The containers say which template they belong to.
const (
	aPod        = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: pod}]}\n"
	aDeployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: " +
		"{containers: [{name: web}]}}}\n"
	aCronJob = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: night}\nspec: {jobTemplate: {spec: {template: " +
		"{spec: {containers: [{name: night}]}}}}}\n"
	aJobSet = `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: driver
    template: {spec: {template: {spec: {containers: [{name: driver}]}}}}
  - name: workers
    template: {spec: {template: {spec: {containers: [{name: workers}]}}}}
`
	aLeaderWorkerSet = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm}
spec:
  leaderWorkerTemplate:
    leaderTemplate: {spec: {containers: [{name: leader}]}}
    workerTemplate: {spec: {containers: [{name: worker}]}}
`
	aRayJob = `apiVersion: ray.io/v1
kind: RayJob
metadata: {name: ray}
spec:
  rayClusterSpec:
    headGroupSpec: {template: {spec: {containers: [{name: head}]}}}
    workerGroupSpecs:
    - groupName: gpu
      template: {spec: {containers: [{name: gpu}]}}
    - groupName: cpu
      template: {spec: {containers: [{name: cpu}]}}
  submitterPodTemplate: {spec: {containers: [{name: submitter}]}}
`
	aPyTorchJob = `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: torch}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: Master}]}}}
    Worker: {template: {spec: {containers: [{name: Worker}]}}}
`
	aList = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: " +
		"{containers: [{name: pod/a}]}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: " +
		"[{name: pod/b}]}}\n"
	aNodePool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: spot}\nspec: {template: {spec: " +
		"{requirements: []}}}\n"
	// A claim of a volume has a template, too.
	aDatabase = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  volumeClaimTemplates: [{spec: {resources: {}}}]
  template:
    spec:
      containers: [{name: db}]
      volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}]
`
)

func documentsIn(t *testing.T, texts ...string) []manifests.Document {
	t.Helper()
	documents, err := manifests.Read([]string{"-"}, false, strings.NewReader(strings.Join(texts, "---\n")))
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

func TestPodTemplatesAtAnyDepth(t *testing.T) {
	for name, test := range map[string]struct {
		texts []string
		want  []string
	}{
		"Pod":             {[]string{aPod}, []string{"pod/one"}},
		"Deployment":      {[]string{aDeployment}, []string{"deployment/web"}},
		"StatefulSet":     {[]string{aDatabase}, []string{"statefulset/db"}},
		"CronJob":         {[]string{aCronJob}, []string{"cronjob/night"}},
		"JobSet":          {[]string{aJobSet}, []string{"driver", "workers"}},
		"LeaderWorkerSet": {[]string{aLeaderWorkerSet}, []string{"leader", "worker"}},
		"RayJob":          {[]string{aRayJob}, []string{"head", "gpu", "cpu", "submitter"}},
		"PyTorchJob":      {[]string{aPyTorchJob}, []string{"Master", "Worker"}},
		"List":            {[]string{aList}, []string{"pod/a", "pod/b"}},
		"several objects": {[]string{aDeployment, aNodePool, aJobSet}, []string{"deployment/web", "driver", "workers"}},
		"equal names": {[]string{aJobSet, strings.Replace(aJobSet, "name: train", "name: again", 1)},
			[]string{"jobset/train:driver", "jobset/train:workers", "jobset/again:driver", "jobset/again:workers"}},
	} {
		t.Run(name, func(t *testing.T) {
			templates := podTemplatesIn(documentsIn(t, test.texts...))
			if diff := cmp.Diff(test.want, namesOfTemplates(templates)); diff != "" {
				t.Fatal(diff)
			}
			for _, name := range test.want {
				chosen, err := chooseTemplate(templates, strings.ToUpper(name))
				if err != nil {
					t.Fatal(err)
				}
				pod, err := chosen.pod(true)
				if err != nil {
					t.Fatal(err)
				}
				_, part, _ := strings.Cut(name, ":")
				if container := pod.Spec.Containers[0].Name; len(test.want) > 1 && container != name &&
					container != part && name != "deployment/web" {
					t.Errorf("%s is the template of %s", name, container)
				}
			}
		})
	}
}

func TestATemplateIsChosen(t *testing.T) {
	for _, test := range []struct {
		texts       []string
		name, error string
	}{
		{[]string{aJobSet}, "",
			"there are 2 pod templates: choose one with --template, which is one of driver, workers"},
		{[]string{aJobSet}, "worker", `--template: there is no pod template "worker": did you mean workers? The pod ` +
			`templates are driver, workers`},
		{[]string{aJobSet}, "x", `--template: there is no pod template "x". The pod templates are driver, workers`},
		{[]string{aJobSet}, "spec.replicatedJobs[1].template.spec.template", ""},
		{[]string{aPod, aDeployment}, "deployment/web", ""},
		{[]string{aPod}, "two", `--template: there is no pod template "two". The pod templates are pod/one`},
		{[]string{"kind: ConfigMap\n"}, "", "no Pod, and no object with a pod template found"},
	} {
		_, err := chooseTemplate(podTemplatesIn(documentsIn(t, test.texts...)), test.name)
		if got := ""; err != nil {
			if got = err.Error(); got != test.error {
				t.Errorf("%s: got %s", test.name, got)
			}
		} else if test.error != "" {
			t.Errorf("%s: no error", test.name)
		}
	}
}

func TestPodsAreReadStrictly(t *testing.T) {
	for name, test := range map[string]struct{ text, error string }{
		"unknown field": {
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: c\n    resorces: {}\n",
			`-:6: unknown field "spec.containers[0].resorces"`,
		},
		"in a template": {
			strings.Replace(aJobSet, "containers: [{name: workers}]",
				"containers: [{name: workers}], nodeSelectors: {a: b}", 1),
			`-:9: unknown field "spec.replicatedJobs[1].template.spec.template.spec.nodeSelectors"`,
		},
		"upper case": {
			"apiVersion: v1\nkind: Pod\nspec:\n  Priority: 1\n  containers: [{name: c}]\n",
			`-:4: unknown field "spec.Priority"`,
		},
		"several": {
			"apiVersion: v1\nkind: Pod\nspec:\n  a: 1\n  b: 1\n  containers: [{name: c}]\n",
			"-:4: unknown field \"spec.a\"\n-:5: unknown field \"spec.b\"",
		},
		"no containers": {
			strings.Replace(aDeployment, "containers", "contaienrs", 1),
			`-:4: unknown field "spec.template.spec.contaienrs"`,
		},
		"a wrong type": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, resources: {limits: " +
				"{cpu: many}}}]\n", "-:1: pod/p: quantities must match",
		},
		"in a List": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  spec:\n    typo: 1\n    " +
				"containers: [{name: c}]\n", `-:7: unknown field "spec.typo"`,
		},
		"status":     {aPod + "status: {unknownInThisVersion: 1}\n", ""},
		"a good one": {aDatabase, ""},
		"of AppWrapper": {"kind: AppWrapper\nspec: {components: [{template: {apiVersion: v1, kind: Pod, metadata: " +
			"{name: in}, spec: {containers: [{name: c}]}}}]}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			documents := documentsIn(t, test.text)
			template, err := chooseTemplate(podTemplatesIn(documents),
				map[bool]string{true: "workers"}[name == "in a template"])
			if err != nil {
				t.Fatal(err)
			}
			_, err = template.pod(true)
			switch {
			case test.error == "" && err != nil,
				test.error != "" && (err == nil || !strings.HasPrefix(err.Error(), test.error)):
				t.Errorf("got %v, want %s", err, test.error)
			case name != "a wrong type":
				if _, err := template.pod(false); err != nil {
					t.Errorf("of the cluster: %v", err)
				}
			}
		})
	}
}

func TestDuplicateFieldsAreErrors(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Pod\nspec:\n  priority: 1\n  priority: 2\n",
		`{"apiVersion": "v1", "kind": "Pod", "spec": {"priority": 1, "priority": 2}}`,
		`{"kind": "A"}{"apiVersion": "v1", "kind": "Pod", "spec": {"priority": 1, "priority": 2}}`,
	} {
		if _, err := manifests.Read([]string{"-"}, false, strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), "priority") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestPodGroupsAreReadStrictly(t *testing.T) {
	const member = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {scheduling.x-k8s.io/pod-group: g}}\n" +
		"spec: {containers: [{name: c}]%s}\n"
	for _, test := range []struct{ pod, group, error string }{
		{strings.Replace(member, "%s", "", 1),
			"apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec:\n  minMembers: 4\n",
			`-:10: unknown field "spec.minMembers"`},
		{
			strings.Replace(member, "%s", ", schedulingGroup: {podGroupName: g}", 1),
			"apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec:\n  schedulingPolicy: " +
				"{gang: {mincount: 4}}\n",
			`-:10: unknown field "spec.schedulingPolicy.gang.mincount"`,
		},
	} {
		documents := documentsIn(t, test.pod, test.group)
		pod, err := (&capacityOptions{}).countedPod(documents, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := groupOfPod(documents, pod); err == nil || err.Error() != test.error {
			t.Errorf("got %v, want %s", err, test.error)
		}
	}
}
