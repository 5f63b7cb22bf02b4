// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package validate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// TestMain silences kube-scheduler's defaulting, which logs every plugin that it overrides.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func check(t *testing.T, text string, cluster *validate.Cluster) *validate.Report {
	t.Helper()
	documents, err := manifests.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := resolve.ParseAllowedHosts(resolve.DefaultAllowedHosts())
	if err != nil {
		t.Fatal(err)
	}
	return validate.Check(documents,
		validate.Options{Registered: sets.KeySet(registry), AllowedHosts: allowed, Cluster: cluster})
}

func profileText(name, spec string) string {
	return fmt.Sprintf(
		"apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: %s}\nspec: {%s}\n---\n",
		name, spec)
}

func policyText(name, spec string) string {
	return fmt.Sprintf(
		"apiVersion: livesched.io/v1alpha1\nkind: SchedulingPolicy\nmetadata: {name: %s}\nspec: {%s}\n---\n",
		name, spec)
}

// expect compares the findings with the wanted ones, each as "name severity path: part of the
// detail".
func expect(t *testing.T, report *validate.Report, want ...string) {
	t.Helper()
	var got []string
	for _, object := range report.Objects {
		for _, finding := range object.Findings {
			got = append(got, fmt.Sprintf("%s %s %s: %s", object.Name, finding.Severity, finding.Path, finding.Detail))
		}
	}
	matched := len(got) == len(want)
	for i := 0; matched && i < len(got); i++ {
		place, detail, _ := strings.Cut(want[i], ": ")
		matched = strings.HasPrefix(got[i], place+": ") && strings.Contains(got[i], detail)
	}
	if !matched {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFilesAreCheckedTogether(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"valid objects": {profileText("a", "policyRef: {name: q}") + policyText("q", "parallelism: 2"), nil},
		"a value out of range": {profileText("a", "percentageOfNodesToScore: 101"),
			[]string{"a error spec.percentageOfNodesToScore: less than or equal to 100"}},
		"a broken rule": {policyText("q", "podInitialBackoff: 5s, podMaxBackoff: 1s"),
			[]string{"q error spec.podMaxBackoff: must not be shorter"}},
		"an unknown field": {profileText("a", "plugins: {score: {enable: []}}"),
			[]string{"a error spec.plugins.score.enable: unknown field"}},
		"a wrong type": {policyText("q", "parallelism: many"),
			[]string{`q error spec.parallelism: must be of type integer`}},
		"an unknown plugin": {profileText("a", "plugins: {score: {enabled: [{name: Nope}]}}"),
			[]string{`a error spec.plugins.score.enabled[0].name: unknown plugin "Nope"`}},
		"a mistyped plugin": {profileText("a", "plugins: {score: {enabled: [{name: NodeResourceFit}]}}"),
			[]string{`a error spec.plugins.score.enabled[0].name: unknown plugin "NodeResourceFit": did you mean ` +
				`NodeResourcesFit`}},
		"wrong arguments": {profileText("a",
			"pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]"),
			[]string{"a error spec.pluginConfig[0].args.hardPodAffinityWeight: not in valid range"}},
		"a list with a duplicate": {profileText("a", "pluginConfig: [{name: NodePorts}, {name: NodePorts}]"),
			[]string{"a error spec.pluginConfig[1]: Duplicate value",
				"a error spec.pluginConfig[1].name: configured twice"}},
		"a missing policy": {profileText("a", "policyRef: {name: q}"),
			[]string{`a warning spec.policyRef.name: does not exist in the files`}},
		"a broken policy": {profileText("a", "policyRef: {name: q}") +
			policyText("q", "queueSort: {name: Nope}"),
			[]string{`a error spec.policyRef.name: "q" is not accepted`,
				"q error spec.queueSort.name: unknown plugin"}},
		"duplicate scheduler names": {profileText("b", "schedulerName: s") + profileText("a", "schedulerName: s"),
			[]string{`a error spec.schedulerName: the older SchedulerProfile "b"`}},
		"duplicate names": {profileText("a", "") + profileText("a", ""),
			[]string{`a error metadata.name: duplicate of another SchedulerProfile "a"`}},
		"a missing name": {"apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\n",
			[]string{` error metadata.name: name or generateName is required`}},
		"an invalid name": {profileText("A_b", "schedulerName: s"),
			[]string{`A_b error metadata.name: a lowercase RFC 1123 subdomain`}},
		"a namespace": {
			"apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: a, namespace: ns}\n",
			[]string{"a error metadata.namespace: a SchedulerProfile has no namespace"}},
		"an unknown kind": {"apiVersion: livesched.io/v1alpha1\nkind: Profile\nmetadata: {name: a}\n",
			[]string{`a error kind: unknown kind "Profile"`}},
		"an unknown version": {"apiVersion: livesched.io/v1\nkind: SchedulerProfile\nmetadata: {name: a}\n",
			[]string{`a error kind: unknown kind "SchedulerProfile" in livesched.io/v1`}},
		"Secrets that cannot be read": {policyText("q", `extenders: [{urlPrefix: "https://x.example.svc", `+
			`filterVerb: f, tlsConfig: {secretRef: {namespace: ns, name: s}}}]`), nil},
		"an extender that the flag does not allow": {
			policyText("q", `extenders: [{urlPrefix: "http://x.example", filterVerb: f}]`),
			[]string{`q error spec.extenders[0].urlPrefix: livesched's flag --extender-allowed-hosts does not allow ` +
				`http://x.example`}},
		"the policy of profiles without policyRef": {policyText("default", "parallelism: 2"),
			[]string{"default warning metadata.name: every SchedulerProfile without policyRef builds on this policy"}},
		"a constraint of pods that is no longer checked": {
			profileText("a", "plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}"),
			[]string{"a warning spec.plugins.multiPoint.disabled[0]: without PodTopologySpread at filter, topology " +
				"spread constraints with whenUnsatisfiable: DoNotSchedule are ignored"}},
		"an inadvisable value": {profileText("a", "percentageOfNodesToScore: 1"),
			[]string{"a warning spec.percentageOfNodesToScore: ends at 1%"}},
	} {
		t.Run(name, func(t *testing.T) { expect(t, check(t, test.text, nil), test.want...) })
	}
}

func TestOtherObjectsAreSkippedAndReported(t *testing.T) {
	report := check(t, "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n---\napiVersion: "+
		"kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", nil)
	if len(report.Objects) != 0 || len(report.Skipped) != 2 ||
		!strings.Contains(report.Skipped[0], "f.yaml:1: Service x") || !strings.Contains(report.Skipped[1], "convert") {
		t.Errorf("%+v", report)
	}
}

// existingCluster has a profile "old", created in 2020, that builds on the policy "q".
func existingCluster() *validate.Cluster {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, UID: "u",
			CreationTimestamp: metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))}
	}
	return &validate.Cluster{
		Profiles: []v1alpha1.SchedulerProfile{
			{ObjectMeta: meta("old"),
				Spec: v1alpha1.SchedulerProfileSpec{SchedulerName: "s",
					PolicyRef: v1alpha1.PolicyReference{Name: "q"}}}},
		Policies: []v1alpha1.SchedulingPolicy{{ObjectMeta: meta("q")}},
	}
}

func TestFilesAreCheckedAgainstTheCluster(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"a policy of the cluster": {profileText("a", "policyRef: {name: q}"), nil},
		"a policy in neither": {profileText("a", "policyRef: {name: r}"),
			[]string{`a error spec.policyRef.name: "r" does not exist`}},
		"a scheduler name in use": {profileText("a", "schedulerName: s"),
			[]string{`a error spec.schedulerName: the older SchedulerProfile "old"`}},
		"an immutable field": {profileText("old", "schedulerName: t"),
			[]string{"old error spec.schedulerName: is immutable"}},
		"a profile that replaces itself": {profileText("old", "schedulerName: s, percentageOfNodesToScore: 50"),
			nil},
		"a policy that breaks a profile": {policyText("q", "queueSort: {name: Nope}"),
			[]string{"q error spec.queueSort.name: unknown plugin",
				`old error spec.policyRef.name: "q" is not accepted`}},
		"a policy that changes a profile": {policyText("q", "parallelism: 2"),
			[]string{
				"q warning metadata.name: changes SchedulerProfiles of the cluster that are not in the files: old"}},
		"a policy that changes none": {policyText("q", "revisionHistoryLimit: 2") +
			policyText("default", "parallelism: 2"), nil},
		"a profile in the files that changes": {policyText("q", "parallelism: 2") +
			profileText("old", "schedulerName: s, policyRef: {name: q}"), nil},
		"a missing Secret": {policyText("r", `extenders: [{urlPrefix: "https://x.example.svc", filterVerb: f, `+
			`tlsConfig: {secretRef: {namespace: ns, name: s}}}]`),
			[]string{`r error spec.extenders[0].tlsConfig.secretRef: does not exist`}},
	} {
		t.Run(name, func(t *testing.T) { expect(t, check(t, test.text, existingCluster()), test.want...) })
	}
}

func TestEverySampleIsValid(t *testing.T) {
	documents, err := manifests.Read([]string{"../../../../config/samples"}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	report := validate.Check(documents, validate.Options{Registered: sets.KeySet(registry)})
	if len(report.Objects) < 3 {
		t.Errorf("%d samples", len(report.Objects))
	}
	expect(t, report, "default warning metadata.name: every SchedulerProfile without policyRef builds on this policy")
}
