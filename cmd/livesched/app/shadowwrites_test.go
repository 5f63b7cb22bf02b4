// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("Shadows in the audit log", func() {
	// auditor is the user as whom livesched runs here: with all rights, so that nothing holds a
	// shadow back.
	const auditor = "livesched-with-shadows"

	It("write their own status and one Event, and nothing about pods", func(ctx context.Context) {
		since := time.Now()
		config := configAs(auditor)
		config.Impersonate.Groups = []string{"system:masters"}
		run, err := testcluster.RunFor(context.Background(), GinkgoLogr, config, testcluster.Options())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })

		createUntilEnd(ctx, objects.PriorityClass("first-in-line", 1000))
		filler := objects.Pod("default", "filler", "nobody", "2", "1Gi")
		filler.Spec.NodeName = "n"
		create(ctx, objects.Node("n", "4", "8Gi", nil), filler)
		// The profile evicts no pods. One shadow would, and the other one refuses all nodes.
		create(ctx, objects.Profile("mine", "plugins: {postFilter: {disabled: [{name: '*'}]}}"),
			objects.Profile("evicts", "{mode: Shadow, shadow: {profileRef: {name: mine}}}"),
			objects.Profile("refuses", `
mode: Shadow
shadow: {profileRef: {name: mine}}
pluginConfig:
- name: NodeAffinity
  args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: nowhere, operator: Exists}]}]}}}
`))
		Eventually(func() int { return run.Scheduler.Store().Alive() }).Should(Equal(3))

		var want []string
		for i := range 5 {
			pod := objects.Pod("default", fmt.Sprint("small-", i), "mine", "100m", "1Mi")
			create(ctx, pod)
			expectBound(ctx, pod)
			want = append(want, "create pods/binding "+pod.Name, "create events "+pod.Name)
		}
		urgent := objects.Pod("default", "urgent", "mine", "3", "1Mi")
		urgent.Spec.PriorityClassName = "first-in-line"
		create(ctx, urgent)
		want = append(want, "create events urgent", "patch pods/status urgent",
			"create events mine", "create events evicts", "create events refuses", // they are in effect
			"create events refuses") // that it disagrees
		slices.Sort(want)

		By("waiting until both shadows have written that they have compared all decisions")
		for _, name := range []string{"evicts", "refuses"} {
			Eventually(func(g Gomega) {
				var shadow v1alpha1.SchedulerProfile
				g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, &shadow)).To(Succeed())
				g.Expect(shadow.Status.Shadow).To(HaveValue(HaveField("Decisions", BeEquivalentTo(6))))
			}).WithContext(ctx).Should(Succeed())
		}
		Eventually(func() []string { return writesAbout(auditor, since) }).WithContext(ctx).Should(Equal(want))
	})
})

// writesAbout returns the writes of a user since a time, sorted, without those of the profiles'
// statuses and histories.
func writesAbout(user string, since time.Time) (writes []string) {
	GinkgoHelper()
	for _, e := range audited(user, since) {
		ref := e.ObjectRef
		if ref == nil || slices.Contains([]string{"get", "list", "watch"}, e.Verb) ||
			ref.Resource == "schedulerprofiles" && ref.Subresource == "status" ||
			ref.Resource == "controllerrevisions" {
			continue
		}
		resource, name := ref.Resource, ref.Name
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		if resource == "events" {
			name = name[:strings.LastIndex(name, ".")] // that of the object, without the number of the Event
		}
		writes = append(writes, e.Verb+" "+resource+" "+name)
	}
	slices.Sort(writes)
	return writes
}
