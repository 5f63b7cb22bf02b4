// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
)

const (
	dashboards = "../../../config/grafana"
	// scrapes has what a livesched served, with which hack/release/monitoring runs the queries of
	// the dashboards. -update writes it anew.
	scrapes = "../../../hack/release/monitoring/testdata"
	// ownQueries has the queries of livesched's own dashboard.
	ownQueries = "../../../internal/loadhistory/testdata/queries.txt"
)

var _ = Describe("The dashboards", func() {
	It("are tested with series that livesched serves", func(ctx context.Context) {
		shown := shownMetrics()
		address := freeAddress()
		c := livesched(append(leading(), "--metrics-bind-address="+address, "--extender-allowed-hosts=off")...)
		c.expectReady(ctx)
		scrape := func() (text string) {
			GinkgoHelper()
			// Some are recorded in the background.
			Eventually(func(g Gomega) {
				scraped := get(ctx, "http://"+address+"/metrics")
				g.Expect(scraped.Code).To(Equal(http.StatusOK), scraped.Body)
				text = only(shown, scraped.Body)
				g.Expect(shown.Difference(namesIn(text))).To(Equal(notServed))
			}).Should(Succeed())
			return text
		}

		By("scheduling, refusing, preempting, reloading and calling an extender that hangs, which makes a slow cycle")
		hung, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(hung.Close)
		class := objects.PriorityClass("high", 1000)
		createUntilEnd(ctx, class)
		mine := profile("mine")
		create(ctx, objects.Node("n1", "4", "8Gi", nil), mine,
			objects.Policy("extended", fmt.Sprintf(`extenders: [{urlPrefix: "http://%s", filterVerb: filter, `+
				`httpTimeout: 200ms, ignorable: true}]`, hung.Addr())),
			objects.Profile("extended", "policyRef: {name: extended}"))
		work := func(round string) {
			for _, of := range []string{"mine", "extended"} {
				pod := objects.PodOf(of, of+round, objects.CPU("1"))
				create(ctx, pod)
				expectBound(ctx, pod)
			}
			huge := objects.PodOf("mine", "huge"+round, objects.CPU("64"))
			important := objects.PodOf("mine", "important"+round, objects.CPU("3500m"), objects.Prioritized(class.Name))
			create(ctx, huge, important)
			expectUnschedulable(ctx, huge)
			expectBound(ctx, important)
			Expect(k8s.Delete(ctx, important)).To(Succeed())
			change(ctx, mine, func(spec *v1alpha1.SchedulerProfileSpec) { *spec = brokenProfile("mine").Spec }, "False")
			change(ctx, mine, func(spec *v1alpha1.SchedulerProfileSpec) {
				*spec = objects.Profile("mine", "percentageOfNodesToScore: 5"+round).Spec
			}, "True")
		}
		for _, round := range []string{"1", "2"} { // a rate needs two samples of a series
			work(round)
			got, file := scrape(), filepath.Join(scrapes, "scrape-"+round+".txt")
			if *update {
				Expect(os.WriteFile(file, []byte(got), 0o644)).To(Succeed())
			}
			stored, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(seriesIn(got)).To(Equal(seriesIn(string(stored))), "write it with -update")
		}
	})
})

// notServed are the series that this work does not make: no plugin panics.
var notServed = sets.New("livesched_plugin_event_handler_panics_total")

// change changes a profile until Ready has this status.
func change(ctx context.Context, p *v1alpha1.SchedulerProfile, how func(*v1alpha1.SchedulerProfileSpec), ready string) {
	GinkgoHelper()
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
	how(&p.Spec)
	Expect(k8s.Update(ctx, p)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(p.Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ConditionReady),
			HaveField("Status", BeEquivalentTo(ready)), HaveField("ObservedGeneration", p.Generation))))
	}).Should(Succeed())
}

// shownMetrics returns the names of the series that dashboards show, Grafana's and livesched's own.
func shownMetrics() sets.Set[string] {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(dashboards, "*.json"))
	Expect(err).NotTo(HaveOccurred())
	names := sets.New[string]()
	insert := func(text string) {
		for _, match := range regexp.MustCompile(`(\w+)\{`).FindAllStringSubmatch(text, -1) {
			names.Insert(match[1])
		}
	}
	own, err := os.ReadFile(ownQueries)
	Expect(err).NotTo(HaveOccurred())
	insert(string(own))
	for _, file := range files {
		var dashboard struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(content, &dashboard)).To(Succeed())
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				insert(target.Expr)
			}
		}
	}
	Expect(names).NotTo(BeEmpty())
	return names
}

var sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? \S+$`)

// only returns the samples of these series in what livesched serves.
func only(names sets.Set[string], text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if match := sampleLine.FindStringSubmatch(strings.TrimSpace(line)); match != nil && names.Has(match[1]) {
			kept = append(kept, line)
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, "")
}

// namesIn returns the names of series in samples.
func namesIn(text string) sets.Set[string] {
	all := sets.New[string]()
	for name := range seriesIn(text) {
		all.Insert(strings.Fields(name)[0])
	}
	return all
}

// seriesIn returns the names of series in samples, each with the names of its labels.
func seriesIn(text string) sets.Set[string] {
	all := sets.New[string]()
	for line := range strings.Lines(text) {
		match := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		var labels []string
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(match[2], -1) {
			labels = append(labels, label[1])
		}
		all.Insert(match[1] + " " + strings.Join(labels, " "))
	}
	return all
}
