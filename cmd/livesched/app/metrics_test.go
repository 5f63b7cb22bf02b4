// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
)

// oracle is the environment variable with the path of a kube-scheduler program, as in the suite of
// internal/scheduler. If it is set, the spec that compares metrics runs that program; with -update,
// its metrics become those that livesched must have.
const oracle = "LIVESCHED_TEST_KUBE_SCHEDULER"

var update = flag.Bool("update", false, "with "+oracle+", write what kube-scheduler measures into testdata; alone, "+
	"write what livesched serves into the tests of the dashboards")

const goldenMetrics = "testdata/metrics.golden"

// countedMetrics are the metrics whose values are compared, without the prefix scheduler_. Of
// durations, the number of observations counts.
var countedMetrics = []string{
	"cache_size",
	"framework_extension_point_duration_seconds",
	"pending_pods",
	"plugin_evaluation_total",
	"pod_scheduled_after_flush_total",
	"pod_scheduling_attempts",
	"pod_scheduling_sli_duration_seconds",
	"preemption_attempts_total",
	"queue_incoming_entities_total",
	"queue_incoming_pods_total",
	"queued_entities",
	"schedule_attempts_total",
	"scheduling_algorithm_duration_seconds",
	"scheduling_attempt_duration_seconds",
	"unschedulable_pods",
}

// namedMetrics are the metrics whose values are not compared, only their series: the values depend
// on the order of events.
var namedMetrics = []string{
	"event_handling_duration_seconds",
	"goroutines",
	"inflight_events",
	"queueing_hint_execution_duration_seconds",
}

// knownDifferences maps series of kube-scheduler to those of livesched. kube-scheduler does not
// record the status of PreEnqueue plugins, because in runPreEnqueuePlugins a variable of the same
// name shadows it. It does not count the entities of failed attempts, because
// requeueEntityWithQueueingStrategy passes the queue that they move to as the one that they came
// from.
var knownDifferences = strings.NewReplacer(
	preEnqueueSuccess+"6\n", preEnqueueSuccess+"5\n"+preEnqueueRefused+"1\n",
	preEnqueueSuccess+"8\n", preEnqueueSuccess+"7\n"+preEnqueueRefused+"1\n",
	failedPods, failedPods+"queue_incoming_entities_total{event=ScheduleAttemptFailure,queue=unschedulable,type=pod} 2\n",
)

const (
	failedPods        = "queue_incoming_pods_total{event=ScheduleAttemptFailure,queue=unschedulable} 2\n"
	preEnqueueSuccess = "framework_extension_point_duration_seconds{extension_point=PreEnqueue,profile=mine,status=Success} "
	preEnqueueRefused = "framework_extension_point_duration_seconds{extension_point=PreEnqueue,profile=mine,status=UnschedulableAndUnresolvable} "
)

var _ = Describe("The metrics", func() {
	It("match kube-scheduler's for the same work", func(ctx context.Context) {
		create(ctx, objects.Node("n1", "4", "8Gi", nil), objects.Node("n2", "4", "8Gi", nil))
		scrape := startMeasured(ctx)

		By("binding pods")
		for _, name := range []string{"a", "b", "c"} {
			pod := objects.Pod("default", name, "mine", "100m", "1Gi")
			create(ctx, pod)
			expectBound(ctx, pod)
		}
		By("leaving some unschedulable")
		big, huge := objects.Pod("default", "big", "mine", "6", "1Gi"),
			objects.Pod("default", "huge", "mine", "60", "1Gi")
		for _, pod := range []*corev1.Pod{big, huge} {
			create(ctx, pod)
			expectUnschedulable(ctx, pod)
		}
		gated := objects.Pod("default", "gated", "mine", "100m", "1Gi")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
		create(ctx, gated)
		first := expectMetrics(ctx, scrape, "while they wait")

		By("changing the cluster so that they fit")
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(big), big)).To(Succeed())
			g.Expect(time.Since(scheduled(big).LastTransitionTime.Time)).To(BeNumerically(">", 3*time.Second),
				"its back-off is over")
		}).Should(Succeed())
		create(ctx, objects.Node("n3", "8", "8Gi", nil))
		expectBound(ctx, big)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(gated), gated)).To(Succeed())
		gated.Spec.SchedulingGates = nil
		Expect(k8s.Update(ctx, gated)).To(Succeed())
		expectBound(ctx, gated)
		Expect(k8s.Delete(ctx, huge, client.GracePeriodSeconds(0))).To(Succeed())
		second := expectMetrics(ctx, scrape, "in the end")

		if os.Getenv(oracle) != "" && *update {
			Expect(os.WriteFile(goldenMetrics, []byte(first+second), 0o600)).To(Succeed())
		}
	})

	It("time every call of a plugin in a tenth of the cycles", func(ctx context.Context) {
		create(ctx, objects.Node("n1", "64", "64Gi", nil), objects.Node("n2", "64", "64Gi", nil))
		scrape := startMeasured(ctx)
		want := []string{
			"Bind DefaultBinder Success", "Filter NodeResourcesFit Success", "PreEnqueue SchedulingGates Success",
			"PreFilter NodeResourcesFit Success",
			"PreScore NodeResourcesFit Success", "Score NodeResourcesFit Success",
			"ScoreExtensionNormalize TaintToleration Success",
		}
		n := 0
		// Each pod is sampled with a chance of one in ten for PreEnqueue, and independently for the
		// other extension points.
		Eventually(func(g Gomega) {
			for range 20 {
				n++
				create(ctx, objects.Pod("default", fmt.Sprint("p-", n), "mine", "10m", "1Mi"))
			}
			var got []string
			for _, m := range scrape(ctx)["scheduler_plugin_execution_duration_seconds"].GetMetric() {
				l := labelsOf(m)
				got = append(got, l["extension_point"]+" "+l["plugin"]+" "+l["status"])
			}
			g.Expect(got).To(ContainElements(want))
		}).WithPolling(time.Second).Should(Succeed())
	})

	It("include the resources of pods while livesched leads", func(ctx context.Context) {
		metrics := freeAddress()
		c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--metrics-bind-address="+metrics)
		pod := objects.Pod("default", "sized", "mine", "1500m", "1Gi")
		create(ctx, profile("mine"), objects.Node("n1", "4", "8Gi", nil), pod)
		expectBound(ctx, pod)
		c.expectReady(ctx)
		Eventually(get).WithArguments(ctx, "http://"+metrics+"/metrics/resources").
			Should(And(HaveField("Code", http.StatusOK), HaveField("Body",
				ContainSubstring(
					`kube_pod_resource_request{namespace="default",node="n1",pod="sized",priority="0",resource="cpu",scheduler="mine",unit="cores"} 1.5`))))
	})
})

// startMeasured runs a scheduler with the name "mine" and the default plugins in a process of its
// own until the spec ends. It returns a function that reads the scheduler's metrics.
func startMeasured(ctx context.Context) func(context.Context) map[string]*dto.MetricFamily {
	GinkgoHelper()
	address := freeAddress()
	url := "http://" + address
	if program := os.Getenv(oracle); program != "" {
		url = "https://" + address
		startOracle(program, address)
		Eventually(read).WithArguments(ctx, url+"/readyz").Should(HaveField("Code", http.StatusOK))
	} else {
		create(ctx, profile("mine"))
		// The fast path calls plugins less often than kube-scheduler does.
		c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--metrics-bind-address="+address,
			"--fast-path=off")
		c.expectReady(ctx)
		Eventually(func(g Gomega) {
			var p v1alpha1.SchedulerProfile
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "mine"}, &p)).To(Succeed())
			g.Expect(p.Status.Active).NotTo(BeNil())
		}).Should(Succeed())
	}
	return func(ctx context.Context) map[string]*dto.MetricFamily {
		GinkgoHelper()
		scraped := read(ctx, url+"/metrics")
		Expect(scraped.Code).To(Equal(http.StatusOK), scraped.Body)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(scraped.Body))
		Expect(err).NotTo(HaveOccurred())
		return families
	}
}

func startOracle(program, address string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	configuration := filepath.Join(dir, "configuration.yaml")
	Expect(os.WriteFile(configuration, fmt.Appendf(nil, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000}
profiles: [{schedulerName: mine}]
`, cluster.Kubeconfig()), 0o600)).To(Succeed())
	host, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	// Batching, which livesched does not have, would skip plugins for some pods.
	command := exec.Command(program, "--config="+configuration, "--bind-address="+host, "--secure-port="+port,
		"--cert-dir="+dir,
		"--authorization-always-allow-paths=/metrics,/readyz", "--authentication-skip-lookup",
		"--feature-gates=OpportunisticBatching=false")
	command.Stderr = GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(command.Process.Kill()).To(Succeed())
		Expect(command.Wait()).To(MatchError(ContainSubstring("killed")))
	})
}

// read is get for a server with a self-signed certificate.
func read(ctx context.Context, url string) answer {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	return getWith(ctx, &http.Client{Transport: transport}, url)
}

func scheduled(pod *corev1.Pod) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func expectUnschedulable(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(scheduled(pod).Reason).To(Equal(corev1.PodReasonUnschedulable))
	}).Should(Succeed())
}

// expectMetrics waits until the metrics match a section of the golden file, and returns the
// section. For kube-scheduler with -update, it waits until they no longer change.
func expectMetrics(ctx context.Context, scrape func(context.Context) map[string]*dto.MetricFamily,
	section string) string {
	GinkgoHelper()
	title := "# " + section + "\n"
	if *update && os.Getenv(oracle) != "" {
		last := ""
		Eventually(func() bool {
			before := last
			last = title + written(scrape(ctx))
			return before == last
		}).WithPolling(3 * time.Second).Should(BeTrue())
		return last
	}
	golden, err := os.ReadFile(goldenMetrics)
	Expect(err).NotTo(HaveOccurred())
	_, want, found := strings.Cut(string(golden), title)
	Expect(found).To(BeTrue(), section)
	want, _, _ = strings.Cut(want, "# ")
	if os.Getenv(oracle) == "" {
		want = knownDifferences.Replace(want)
	}
	Eventually(func() []string { return strings.Split(written(scrape(ctx)), "\n") }).
		WithPolling(200 * time.Millisecond).
		Should(ConsistOf(strings.Split(want, "\n")))
	return title + want
}

// written formats the compared metrics, with one line for each series and its value.
func written(families map[string]*dto.MetricFamily) string {
	var lines []string
	for _, name := range slices.Concat(countedMetrics, namedMetrics) {
		if family := families["scheduler_"+name]; len(family.GetMetric()) > 0 {
			lines = append(lines,
				strings.TrimSpace(fmt.Sprintf("%s is a %s %s", name, strings.ToLower(family.GetType().String()),
					bucketsOf(family.Metric[0]))))
		}
	}
	for _, name := range countedMetrics {
		for _, m := range families["scheduler_"+name].GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if value != 0 {
				lines = append(lines, fmt.Sprintf("%s%s %v", name, seriesOf(m), value))
			}
		}
	}
	for _, name := range namedMetrics {
		for _, m := range families["scheduler_"+name].GetMetric() {
			lines = append(lines, name+seriesOf(m))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func bucketsOf(m *dto.Metric) string {
	if m.GetHistogram() == nil {
		return ""
	}
	var bounds []string
	for _, b := range m.GetHistogram().GetBucket() {
		bounds = append(bounds, fmt.Sprint(b.GetUpperBound()))
	}
	return "with buckets up to " + strings.Join(bounds, ", ")
}

func seriesOf(m *dto.Metric) string {
	labels := labelsOf(m)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}
