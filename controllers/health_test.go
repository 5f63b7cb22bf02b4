// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// The specs judge real objects as other tools do: by kstatus, which Flux uses, and by the health
// check for Argo CD in the documentation.
var _ = Describe("The health of an object", func() {
	var check string

	BeforeEach(func() { check = documentedCheck() })

	// expectHealth waits until both tools judge an object like this, for a reason with some words.
	expectHealth := func(ctx context.Context, kind, name string, want status.Status, words string) {
		GinkgoHelper()
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		argo := map[status.Status]string{status.CurrentStatus: "Healthy", status.InProgressStatus: "Progressing",
			status.FailedStatus: "Degraded"}
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, object)).To(Succeed())
			result, err := status.Compute(object)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Status).To(Equal(want), result.Message)
			health, message := argoHealth(check, object)
			g.Expect(health).To(Equal(argo[want]), message)
			g.Expect(message).To(ContainSubstring(words))
			if want == status.FailedStatus {
				g.Expect(result.Message).To(ContainSubstring(words))
			}
		}).WithContext(ctx).Should(Succeed())
	}

	It("of a profile is current while this generation is active, and failed while only another spec can help",
		func(ctx context.Context) {
			factory := &moodyFactory{released: make(chan struct{})}
			mine := profile("mine", packs)
			create(ctx, mine)
			expectHealth(ctx, "SchedulerProfile", "mine", status.InProgressStatus, "has not processed")
			start(func(o *app.Options) { o.OutOfTree = framework.Registry{moody: factory.build} })
			expectHealth(ctx, "SchedulerProfile", "mine", status.CurrentStatus, "of generation 1 is active")

			By("building a new generation")
			factory.set((*moodyFactory).hang)
			change(ctx, mine, packs+usesMoody)
			expectHealth(ctx, "SchedulerProfile", "mine", status.InProgressStatus, "Generation 2 is still being built")
			close(factory.released)
			expectHealth(ctx, "SchedulerProfile", "mine", status.CurrentStatus, "of generation 2 is active")

			By("rejecting one, and mending it")
			change(ctx, mine, refusals[0].spec)
			expectHealth(ctx, "SchedulerProfile", "mine", status.FailedStatus, `unknown plugin "NoSuchPlugin"`)
			change(ctx, mine, packs)
			expectHealth(ctx, "SchedulerProfile", "mine", status.CurrentStatus, "of generation 4 is active")

			By("waiting for a policy")
			change(ctx, mine, "policyRef: {name: later}")
			expectHealth(ctx, "SchedulerProfile", "mine", status.InProgressStatus, `SchedulingPolicy "later"`)
			create(ctx, policy("later", ""))
			expectHealth(ctx, "SchedulerProfile", "mine", status.CurrentStatus, "of generation 5 is active")

			By("taking the name of another profile")
			create(ctx, profile("younger", "schedulerName: mine"))
			expectHealth(ctx, "SchedulerProfile", "younger", status.FailedStatus, `older SchedulerProfile "mine"`)
		})

	It("of a policy is judged likewise", func(ctx context.Context) {
		shared := policy("shared", "")
		create(ctx, shared, profile("mine", "policyRef: {name: shared}"))
		expectHealth(ctx, "SchedulingPolicy", "shared", status.InProgressStatus, "has not processed")
		start()
		expectHealth(ctx, "SchedulingPolicy", "shared", status.CurrentStatus, "Generation 1 is active in profile mine")

		change(ctx, shared, "queueSort: {name: NoSuchPlugin}")
		expectHealth(ctx, "SchedulingPolicy", "shared", status.FailedStatus, `unknown plugin "NoSuchPlugin"`)
		change(ctx, shared, extended)
		expectHealth(ctx, "SchedulingPolicy", "shared", status.InProgressStatus, "nowhere")
		change(ctx, shared, "parallelism: 4")
		expectHealth(ctx, "SchedulingPolicy", "shared", status.CurrentStatus, "Generation 4 is active in profile mine")
	})
})

// documentedCheck returns the health check for Argo CD in the documentation.
func documentedCheck() string {
	GinkgoHelper()
	page, err := os.ReadFile("../docs/operate/gitops.md")
	Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(page), "```yaml\napiVersion: v1\nkind: ConfigMap\n")
	text, _, _ := strings.Cut(rest, "```")
	var config corev1.ConfigMap
	Expect(yaml.Unmarshal([]byte(text), &config)).To(Succeed())
	var checks map[string]map[string]string
	Expect(yaml.Unmarshal([]byte(config.Data["resource.customizations"]), &checks)).To(Succeed())
	check := checks["livesched.io/*"]["health.lua"]
	Expect(check).NotTo(BeEmpty())
	return check
}

// argoHealth runs a health check as Argo CD does: with the object as a global variable.
func argoHealth(check string, object *unstructured.Unstructured) (health, message string) {
	GinkgoHelper()
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", luaValue(state, object.Object))
	Expect(state.DoString(check)).To(Succeed())
	result, ok := state.Get(-1).(*lua.LTable)
	Expect(ok).To(BeTrue(), "the check returns no table")
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

// luaValue converts a value of an unstructured object.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	}
	return lua.LNil
}
