// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// hostile runs a server with one answer to everything, until the end of the spec. It counts the
// requests.
func hostile(answer http.HandlerFunc) (url string, requests *atomic.Int32) {
	requests = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // otherwise, the end of the connection would go unnoticed
		answer(w, r)
	}))
	DeferCleanup(s.Close)
	return s.URL, requests
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drip sends one byte at a time, for ever.
func drip(w http.ResponseWriter, r *http.Request) {
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticks.C:
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
		}
	}
}

// flood sends 16 MiB of empty nodes.
func flood(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"Nodes": {"items": [`)
	chunk := bytes.Repeat([]byte("{},"), 1<<20/3)
	for range 16 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `{}]}}`)
}

// transcribe appends to the file that LIVESCHED_TEST_TRANSCRIPT names what an operator sees.
func transcribe(ctx context.Context, title, extender string, pod *corev1.Pod) {
	GinkgoHelper()
	var text strings.Builder
	fmt.Fprintf(&text, "=== %s\n\n", title)
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	fmt.Fprintf(&text, "pod %s: node %q\n", pod.Name, pod.Spec.NodeName)
	for _, condition := range pod.Status.Conditions {
		fmt.Fprintf(&text, "  %s=%s %s: %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	policy := &v1alpha1.SchedulingPolicy{}
	Expect(K8s.Get(ctx, client.ObjectKey{Name: "hostile"}, policy)).To(Succeed())
	fmt.Fprintf(&text, "schedulingpolicy hostile\n")
	for _, condition := range policy.Status.Conditions {
		fmt.Fprintf(&text, "  %s=%s %s: %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	var events eventsv1.EventList
	Expect(K8s.List(ctx, &events)).To(Succeed())
	for _, e := range events.Items {
		if e.Regarding.UID == pod.UID || e.Regarding.UID == policy.UID {
			fmt.Fprintf(&text, "  Event on %s %s: %s %s: %s\n", e.Regarding.Kind, e.Regarding.Name, e.Type, e.Reason,
				e.Note)
		}
	}
	for _, name := range []string{"livesched_extender_circuit_open", "livesched_extender_failures_total"} {
		fmt.Fprintf(&text, "metric %s{extender=%q} %v\n", name, extender, Counted(name, "extender", extender))
	}
	text.WriteString("\n")
	GinkgoWriter.Print(text.String())
	if file := os.Getenv("LIVESCHED_TEST_TRANSCRIPT"); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		Expect(err).NotTo(HaveOccurred())
		_, err = f.WriteString(text.String())
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Close()).To(Succeed())
	}
}

// eventsOfPolicy returns the Events about the hostile policy with a reason.
func eventsOfPolicy(ctx context.Context, reason string) (notes []string) {
	var events eventsv1.EventList
	Expect(K8s.List(ctx, &events)).To(Succeed())
	policy := &v1alpha1.SchedulingPolicy{}
	Expect(K8s.Get(ctx, client.ObjectKey{Name: "hostile"}, policy)).To(Succeed())
	for _, e := range events.Items {
		if e.Regarding.UID == policy.UID && e.Reason == reason {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

var _ = Describe("A hostile extender", func() {
	var run *testcluster.Running

	BeforeEach(func(ctx context.Context) {
		if os.Getenv(Oracle) != "" {
			Skip("kube-scheduler trusts its extenders")
		}
		CreateNodes(ctx, "n1", "n2")
		run = Start()
		Create(ctx, Policy("default", `{podInitialBackoff: 1ms, podMaxBackoff: 1ms}`))
		CreateProfile(ctx, "others", "")
	})

	// extended starts the profile that uses the extender.
	extended := func(ctx context.Context, extender string) {
		GinkgoHelper()
		Create(ctx, Policy("hostile",
			fmt.Sprintf("{podInitialBackoff: 1ms, podMaxBackoff: 1s, extenders: [%s]}", extender)))
		CreateProfile(ctx, "mine", "policyRef: {name: hostile}")
	}

	DescribeTable("harms only the pods that need it:", func(ctx context.Context, title string, answer http.HandlerFunc,
		timeout string, words ...string) {
		url, _ := hostile(answer)
		extended(ctx, fmt.Sprintf("{urlPrefix: %q, filterVerb: filter, httpTimeout: %s}", url, timeout))
		alone := latencies(ctx, "alone", hostilePods(), func(string) {})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		victim := CreatePod(ctx, "mine", "victim", CPU("10m"))
		ExpectEvent(ctx, victim, "FailedScheduling", WithTransform(func(note string) bool {
			return slices.ContainsFunc(words,
				func(w string) bool { return strings.Contains(note, url+`", filter: `+w) })
		}, BeTrue()))

		By("binding pods of another profile while pods keep needing the extender")
		first := latencies(ctx, "first", 20, func(name string) { CreatePod(ctx, "mine", "needs-"+name, CPU("1m")) })

		By("no longer calling it, and telling the operator")
		Eventually(eventsOfPolicy).WithArguments("ExtenderUnavailable").WithContext(ctx).Should(ConsistOf(
			And(ContainSubstring(url), ContainSubstring("filter: is not called for now"))))
		later := latencies(ctx, "later", hostilePods(), func(string) {})
		runtime.GC()
		runtime.ReadMemStats(&after)
		Expect(after.HeapAlloc).To(BeNumerically("<", before.HeapAlloc+128<<20))
		Expect(run.Scheduler.Healthy()).To(Succeed()) // what /livez asks
		GinkgoWriter.Printf("%s: until a pod of another profile is bound, p50 / p99 / longest: alone %s, during the "+
			"first calls %s, later %s; heap %d MiB before, %d MiB after\n",
			title, summary(alone), summary(first), summary(later), before.HeapAlloc>>20, after.HeapAlloc>>20)
		ExpectUnscheduled(ctx, victim, corev1.PodReasonSchedulerError,
			ContainSubstring(url+`", filter: not called, since its last calls failed`))
		Expect(Counted("livesched_extender_circuit_open", "extender", url)).To(BeEquivalentTo(1))
		transcribe(ctx, title, url, victim)
	},
		Entry("it hangs", "An extender that hangs", hang, "500ms", "no answer within 500ms"),
		Entry("it sends one byte at a time", "An extender that sends one byte at a time", drip, "500ms",
			"no answer within 500ms"),
		Entry("it sends 16 MiB of empty nodes", "An extender that answers with 16 MiB of {},", flood, "15s",
			"the answer is too long", "no answer within 15s"), // the latter if other tests need the CPUs
	)

	It("cannot make livesched send requests elsewhere", func(ctx context.Context) {
		canary, visits := hostile(func(http.ResponseWriter, *http.Request) {})
		url, _ := hostile(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, canary, http.StatusTemporaryRedirect)
		})
		extended(ctx, fmt.Sprintf("{urlPrefix: %q, filterVerb: filter}", url))
		victim := CreatePod(ctx, "mine", "victim")
		ExpectEvent(ctx, victim, "FailedScheduling",
			ContainSubstring(url+
				`", filter: the answer has status 307 Temporary Redirect, and redirects are not followed`))
		transcribe(ctx, "An extender that redirects to another server", url, victim)
		Expect(visits.Load()).To(BeZero())
	})

	DescribeTable("cannot have pods evicted that its pod may not preempt:", func(ctx context.Context,
		foreign, words string) {
		CreateClasses(ctx, PriorityClass("important", 1000), PriorityClass("precious", 1001))
		pods := map[string]*corev1.Pod{
			"lowly":  CreatePod(ctx, "somebody-else", "lowly", CPU("2"), OnNode("n1")),
			"equal":  CreatePod(ctx, "somebody-else", "equal", CPU("1"), OnNode("n1"), Prioritized("important")),
			"higher": CreatePod(ctx, "somebody-else", "higher", CPU("1"), OnNode("n1"), Prioritized("precious")),
			"far":    CreatePod(ctx, "somebody-else", "far", CPU("4"), OnNode("n2"), Prioritized("precious")),
		}
		url, _ := hostile(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": %q}, {"UID": %q}]}}}`,
				pods["lowly"].UID, pods[foreign].UID)
		})
		extended(ctx, fmt.Sprintf("{urlPrefix: %q, preemptVerb: preempt}", url))
		high := CreatePod(ctx, "mine", "high", CPU("2"), Prioritized("important"))
		ExpectEvent(ctx, high, "FailedScheduling", ContainSubstring(url+`", preempt: `+words))
		transcribe(ctx, "An extender that names a foreign victim: "+foreign, url, high)
		for _, pod := range pods {
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			Expect(pod.DeletionTimestamp).To(BeNil())
		}
	},
		Entry("one of the same priority", "equal",
			`the answer has a victim on node "n1" that does not have a lower priority than the pod`),
		Entry("one of a higher priority", "higher",
			`the answer has a victim on node "n1" that does not have a lower priority than the pod`),
		Entry("one on another node", "far", `the answer has a victim on node "n1" that is not there`),
	)

	It("cannot be at a host that the flag does not allow, whatever it was allowed to be before",
		func(ctx context.Context) {
			url, requests := hostile(hang)
			Expect(run.Stop(StopsWithin)).To(Succeed())
			run = Start(func(o *app.Options) { o.ExtenderAllowedHosts = []string{"*.svc"} })
			Create(ctx, Policy("hostile", fmt.Sprintf("{extenders: [{urlPrefix: %q, filterVerb: filter}]}", url)),
				Profile("mine", "policyRef: {name: hostile}"))
			Eventually(func(g Gomega) {
				policy := &v1alpha1.SchedulingPolicy{}
				g.Expect(K8s.Get(ctx, client.ObjectKey{Name: "hostile"}, policy)).To(Succeed())
				g.Expect(meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionAccepted)).To(And(
					HaveField("Status", BeEquivalentTo("False")),
					HaveField("Reason", v1alpha1.ReasonExtenderHostNotAllowed),
					HaveField("Message",
						ContainSubstring("livesched's flag --extender-allowed-hosts does not allow "+url))))
			}).WithContext(ctx).Should(Succeed())
			transcribe(ctx, "An extender at a host that is not allowed", url, CreatePod(ctx, "mine", "victim"))
			Expect(requests.Load()).To(BeZero())
		})
})
