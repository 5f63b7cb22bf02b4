// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/controlplane/process"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// columns returns the fields of the line of a table that begins with a name.
func columns(out, name string) []string {
	for _, line := range strings.Split(out, "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == name {
			return fields
		}
	}
	return nil
}

var _ = Describe("status", func() {
	It("shows active revisions, pending pods and problems", func(ctx context.Context) {
		secure, err := process.FreePort()
		Expect(err).NotTo(HaveOccurred())
		metrics := startLivesched(ctx, func(o *liveschedapp.Options) { o.Secure.Port = secure })
		good, broken := profile("good"), profile("broken", weight("NodeAffinity", 3))
		create(ctx, policy("default", 4), good, broken)
		// livesched may see a profile before the policy.
		for _, p := range []*v1alpha1.SchedulerProfile{good, broken} {
			Eventually(func(g Gomega) {
				expectProgrammed(ctx, p)
				g.Expect(p.Status.Active.Policy).NotTo(BeNil())
			}).WithContext(ctx).Should(Succeed())
		}
		gated := objects.Pod("default", "gated", "good", "1", "1Gi")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		create(ctx, gated, objects.Pod("default", "stuck", "good", "1", "1Gi"))
		Expect(testcluster.Update(ctx, k8s, broken, func(p *v1alpha1.SchedulerProfile) { weight("NoSuchPlugin", 1)(&p.Spec) })).To(Succeed())

		By("counting pods by their conditions")
		Eventually(func(g Gomega) {
			got := kubectl(ctx, "status", "-o", "wide")
			g.Expect(got.code).To(BeZero(), got.errOut)
			g.Expect(got.out).To(ContainSubstring("Pods: counted by their conditions"))
			g.Expect(columns(got.out, "good")).To(HaveExactElements("good", "True", "good", "True", "True", good.Status.Active.Revision, Not(BeEmpty()), "1", "default@1", "0", "-", "1", "1"))
			g.Expect(columns(got.out, "broken")).To(HaveExactElements("broken", "False", "broken", "False", "False", broken.Status.Active.Revision, Not(BeEmpty()), "2", "(1", "active)", "default@1", "0", "-", "0", "0"))
			g.Expect(columns(got.out, "default")).To(HaveExactElements("default", "True", "True", "True", "1", "good"))
			g.Expect(got.out).To(ContainSubstring(`schedulerprofile/broken: Accepted is False (UnknownPlugin): spec.plugins.score.enabled[0].name: unknown plugin "NoSuchPlugin"`))
			g.Expect(got.out).To(ContainSubstring("schedulerprofile/broken: Programmed is False (KeptLastGood)"))
			got = kubectl(ctx, "status")
			g.Expect(columns(got.out, "PROFILE")).To(HaveExactElements("PROFILE", "READY", "REVISION", "POLICY", "PENDING", "UNSCHEDULABLE"))
			g.Expect(columns(got.out, "good")).To(HaveExactElements("good", "True", good.Status.Active.Revision, "default@1", "2", "1"))
			g.Expect(columns(got.out, "broken")).To(HaveExactElements("broken", "False", broken.Status.Active.Revision, "default@1", "0", "0"))
			g.Expect(columns(got.out, "default")).To(HaveExactElements("default", "True", "1", "good"))
		}).WithContext(ctx).Should(Succeed())

		By("reading the metrics")
		Eventually(func(g Gomega) {
			got := kubectl(ctx, "status", "good", "--metrics-url", "http://"+metrics+"/metrics", "-o", "yaml")
			g.Expect(got.code).To(BeZero(), got.errOut)
			var report struct {
				PodsFrom string
				Profiles []struct {
					Name string
					Pods map[string]int
				}
			}
			g.Expect(yaml.Unmarshal([]byte(got.out), &report)).To(Succeed())
			g.Expect(report.PodsFrom).To(HavePrefix("from the metrics at"))
			g.Expect(report.Profiles).To(HaveLen(1))
			pods := report.Profiles[0].Pods
			g.Expect(pods["gated"]).To(Equal(1))
			g.Expect(pods["active"] + pods["backoff"] + pods["unschedulable"]).To(Equal(1))
		}).WithContext(ctx).Should(Succeed())

		By("reading the metrics of the secure port")
		url := fmt.Sprintf("https://127.0.0.1:%d/metrics", secure)
		got := kubectl(ctx, "status", "good", "-o", "wide", "--metrics-url", url, "--metrics-insecure-skip-tls-verify", "--metrics-token", cluster.Config.BearerToken)
		Expect(got.out).To(ContainSubstring("Pods: from the metrics at " + url))
		got = kubectl(ctx, "status", "good", "-o", "wide", "--metrics-url", url, "--metrics-insecure-skip-tls-verify")
		Expect(got.out).To(ContainSubstring("401 Unauthorized"))
		got = kubectl(ctx, "status", "good", "-o", "wide", "--metrics-url", "http://"+metrics+"/metrics", "--metrics-token", "secret")
		Expect(got.out).To(ContainSubstring("--metrics-token: is sent to an https URL only"))
	}, SpecTimeout(5*time.Minute))

	It("reads the metrics of the leader through the API server", func(ctx context.Context) {
		host := reachableAddress()
		metrics := startLivesched(ctx)
		_, port, err := net.SplitHostPort(metrics)
		Expect(err).NotTo(HaveOccurred())
		number, err := strconv.Atoi(port)
		Expect(err).NotTo(HaveOccurred())
		p := profile("good")
		create(ctx, p)
		expectProgrammed(ctx, p)
		leader := objects.Pod("livesched-system", "livesched-0", "", "1", "1Gi")
		leader.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(number)}}
		leader.Spec.NodeName = "somewhere"
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "livesched-system", Name: "livesched"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("livesched-0_2c1f7a8e")},
		}
		create(ctx, leader, lease)
		DeferCleanup(func(ctx context.Context) {
			Expect(k8s.Delete(ctx, leader, client.GracePeriodSeconds(0))).To(Succeed())
			Expect(k8s.Delete(ctx, lease)).To(Succeed())
		})
		leader.Status.PodIP, leader.Status.PodIPs, leader.Status.Phase = host, []corev1.PodIP{{IP: host}}, corev1.PodRunning
		Expect(k8s.Status().Update(ctx, leader)).To(Succeed())
		create(ctx, objects.Pod("default", "stuck", "good", "1", "1Gi"))
		Eventually(func(g Gomega) {
			got := kubectl(ctx, "status", "-o", "wide")
			g.Expect(got.code).To(BeZero(), got.errOut)
			g.Expect(got.out).To(ContainSubstring("Pods: from the metrics of the leader, pod livesched-system/livesched-0."))
			line := columns(got.out, "good")
			g.Expect(line).To(HaveLen(13))
			g.Expect(line[9:]).To(ConsistOf("1", "0", "0", "0"))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("reports an object that livesched has not processed", func(ctx context.Context) {
		create(ctx, profile("new"), policy("other", 1))
		got := kubectl(ctx, "status", "new", "-o", "wide")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(columns(got.out, "new")).To(HaveExactElements("new", "Unknown", "new", "Unknown", "Unknown", "-", "-", "1", "default", "0", "-", "0", "0"))
		Expect(got.out).To(ContainSubstring("schedulerprofile/new: livesched has not processed it"))
		Expect(got.out).NotTo(ContainSubstring("other"))
	})

	It("keeps its tables within 100 columns, and shows whole names with -o wide", func(ctx context.Context) {
		long := strings.Repeat("long-", 12) + "x"
		on := func(spec *v1alpha1.SchedulerProfileSpec) { spec.PolicyRef.Name = long }
		p := policy(long, 1)
		create(ctx, p, profile(long, on))
		p.Status.Conditions = []metav1.Condition{}
		for i := range 20 {
			p.Status.Profiles = append(p.Status.Profiles, fmt.Sprint(long, i))
		}
		Expect(k8s.Status().Update(ctx, p)).To(Succeed())
		tables, _, _ := strings.Cut(kubectl(ctx, "status").out, "\n\nscheduler")
		for _, line := range strings.Split(tables, "\n") {
			Expect(len([]rune(line))).To(BeNumerically("<=", 100), line)
		}
		Expect(kubectl(ctx, "status", "-o", "wide").out).To(ContainSubstring(long + "19"))
	})

	It("follows changes", func(ctx context.Context) {
		startLivesched(ctx)
		p := profile("a")
		create(ctx, p)
		expectProgrammed(ctx, p)
		watching, stop := context.WithCancel(ctx)
		defer stop()
		out := gbytes.NewBuffer()
		ended := make(chan int)
		go func() {
			defer close(ended)
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: GinkgoWriter}
			ended <- app.Run(watching, []string{"--kubeconfig", cluster.Kubeconfig(), "status", "a", "-w"}, streams)
		}()
		Eventually(out).WithContext(ctx).Should(gbytes.Say(`a +True +` + p.Status.Active.Revision))
		change(ctx, p, weight("NodeAffinity", 3))
		Eventually(out).WithContext(ctx).Should(gbytes.Say(`\n\d\d:\d\d:\d\d\n(?s:.*)a +True +` + p.Status.Active.Revision))
		stop()
		Eventually(ended).WithContext(ctx).Should(Receive(BeZero()))
	}, SpecTimeout(5*time.Minute))

	It("takes livesched's namespace from --livesched-namespace, and still from -n", func(ctx context.Context) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: kept, Name: "livesched"}}
		create(ctx, lease)
		DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, lease)).To(Succeed()) })
		for _, flag := range []string{"--livesched-namespace", "-n", "--namespace"} {
			Expect(kubectl(ctx, "status", "-o", "wide", flag, kept).out).To(ContainSubstring("no replica holds the Lease kept/livesched"), flag)
		}
		Expect(kubectl(ctx, "status", "--help").out).NotTo(ContainSubstring("--namespace"))
		Expect(kubectl(ctx, "options").out).To(ContainSubstring("--livesched-namespace="))
	})

	It("names the profiles that do not exist", func(ctx context.Context) {
		got := kubectl(ctx, "status", "nobody")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(Equal("error: no such SchedulerProfile: nobody\n"))
	})
})

// reachableAddress returns an address of this machine that the API server proxies to. It refuses
// loopback addresses.
func reachableAddress() string {
	GinkgoHelper()
	addresses, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String()
		}
	}
	Skip("this machine has only loopback addresses")
	return ""
}
