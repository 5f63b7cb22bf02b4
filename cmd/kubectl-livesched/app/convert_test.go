// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// refusedBy resolves the objects in a text as livesched does, and returns the errors.
func refusedBy(t *testing.T, text string, hosts resolve.AllowedHosts) (refused []string) {
	t.Helper()
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	in := resolve.Input{Registered: sets.KeySet(registry), SecretsUnknown: true, AllowedHosts: hosts}
	for _, document := range strings.Split(text, "---\n") {
		profile, policy := v1alpha1.SchedulerProfile{}, v1alpha1.SchedulingPolicy{}
		switch {
		case strings.Contains(document, "\nkind: SchedulerProfile\n"):
			err = yaml.Unmarshal([]byte(document), &profile)
			in.Profiles = append(in.Profiles, profile)
		case strings.Contains(document, "\nkind: SchedulingPolicy\n"):
			err = yaml.Unmarshal([]byte(document), &policy)
			in.Policies = append(in.Policies, policy)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	resolution := resolve.Objects(in)
	for _, results := range []map[string]resolve.Result{resolution.ProfileResults, resolution.PolicyResults} {
		for name, result := range results {
			if !result.Accepted {
				refused = append(refused, name+": "+result.Message)
			}
		}
	}
	return refused
}

func TestConvertNeverSucceedsWithObjectsThatLiveschedRefuses(t *testing.T) {
	inputs, err := filepath.Glob("../internal/convert/testdata/*/input.*")
	if err != nil || len(inputs) < 20 {
		t.Fatalf("%d inputs: %v", len(inputs), err)
	}
	refusing := 0
	for _, hosts := range [][]string{resolve.DefaultAllowedHosts(), {"http://127.0.0.1:10262"}, {resolve.AllHosts}} {
		allowed, err := resolve.ParseAllowedHosts(hosts)
		if err != nil {
			t.Fatal(err)
		}
		for _, input := range inputs {
			got := withoutCluster("", "convert", "-f", input, resolve.FlagAllowedHosts, strings.Join(hosts, ","))
			refused := refusedBy(t, got.out, allowed)
			refusing += len(refused)
			if len(refused) > 0 && got.code != 1 {
				t.Errorf("%s with %s: exit code %d, but livesched refuses %q\n%s", input, hosts, got.code, refused,
					got.errOut)
			}
			noLoss := strings.Contains(got.errOut, ": 0 losses, ")
			if strict := withoutCluster("", "convert", "--strict", "-f", input, resolve.FlagAllowedHosts,
				strings.Join(hosts, ",")); strict.code == 0 != (got.code == 0 && noLoss) {
				t.Errorf("%s with %s: exit code %d with --strict, %d without\n%s", input, hosts, strict.code, got.code,
					got.errOut)
			}
		}
	}
	if refusing < 4 {
		t.Errorf("only %d objects are refused: the inputs show nothing", refusing)
	}
}

func TestConvertOfAnExtenderOnLocalhost(t *testing.T) {
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"percentageOfNodesToScore: 100\n" +
		"extenders: [{urlPrefix: 'http://127.0.0.1:8888', filterVerb: filter, httpTimeout: 5s}]\n"
	for _, test := range []struct {
		flags  []string
		code   int
		errOut string
	}{
		{nil, 1, "-:4: loss: extenders[0].urlPrefix: livesched does not accept http://127.0.0.1:8888: allow the host " +
			"with --extender-allowed-hosts"},
		{[]string{"--strict"}, 1, "1 profile, 1 policy: 1 loss, "},
		{[]string{"--strict", "--extender-allowed-hosts", "http://127.0.0.1:8888"}, 0,
			"1 profile, 1 policy: 0 losses, 0 notes"},
		{[]string{"--extender-allowed-hosts", "http://"}, 2, "error: --extender-allowed-hosts: "},
	} {
		t.Run(fmt.Sprint(test.flags), func(t *testing.T) {
			got := withoutCluster(text, append([]string{"convert", "-f", "-"}, test.flags...)...)
			if got.code != test.code || !strings.Contains(got.errOut, test.errOut) {
				t.Errorf("exit code %d\n%s", got.code, got.errOut)
			}
		})
	}
}

// withoutCluster runs the command line with a standard input, and without a cluster.
func withoutCluster(in string, args ...string) outcome {
	var out, errOut bytes.Buffer
	args = append([]string{"--kubeconfig", "/dev/null"}, args...)
	code := app.Run(context.Background(), args,
		genericiooptions.IOStreams{In: strings.NewReader(in), Out: &out, ErrOut: &errOut}, nil)
	return outcome{code: code, out: out.String(), errOut: errOut.String()}
}
