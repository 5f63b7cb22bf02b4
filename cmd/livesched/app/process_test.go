// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// tolerated is the time after SIGTERM within which livesched must have stopped, whatever hangs. The
// documentation says 10 seconds, and livesched waits 9 seconds for parts that hang. The rest allows
// for a busy machine, on which the process and the test are slow.
const tolerated = 15 * time.Second

var _ = Describe("The command line", func() {
	It("prints the version", func() {
		code, text := run("--version")
		Expect(code).To(Equal(0))
		Expect(text).To(MatchRegexp(`^livesched \S+ \(Kubernetes v\S+\)\n$`))
	})

	It("prints the flags", func() {
		code, text := run("--help")
		Expect(code).To(Equal(0))
		Expect(text).To(And(ContainSubstring("Usage:\n  livesched [flags]"),
			ContainSubstring("--leader-elect-renew-deadline duration"), ContainSubstring("--zap-log-level")))
	})

	DescribeTable("that is invalid ends with status 2 and an error message", func(words string, args ...string) {
		code, text := run(args...)
		Expect(code).To(Equal(2))
		Expect(text).To(And(HavePrefix("livesched: "), ContainSubstring(words)))
	},
		Entry("an unknown flag", "unknown flag: --schedule", "--schedule"),
		Entry("an argument", `unexpected argument "default"`, "default"),
		Entry("a value that cannot be parsed", "--kube-api-qps", "--kube-api-qps=fast"),
		Entry("an invalid value", "--kube-api-burst=0: must be at least 1", "--kube-api-burst=0"),
		Entry("a format of the log that does not exist", `must be "json" or "text"`, "--logging-format=xml"),
		Entry("a verbosity that is no number", "must be a number from 0 to 127", "-v=debug"),
		Entry("an unknown feature gate", "unrecognized feature gate: NoSuch", "--feature-gates=NoSuch=true"),
		Entry("a feature gate without the one that it depends on", "DRAWorkloadResourceClaims",
			"--feature-gates=DRAWorkloadResourceClaims=true"),
		Entry("an unsupported feature gate",
			"--feature-gates=InterPodAffinityHostnameFastPath=true: livesched does not implement",
			"--feature-gates=InterPodAffinityHostnameFastPath=true"),
	)
})

var _ = Describe("The process", func() {
	DescribeTable("ends with status 1 and advice if it cannot start", func(words string, args func() []string) {
		code, text := run(args()...)
		Expect(code).To(Equal(1))
		Expect(text).To(And(HavePrefix("livesched: "), ContainSubstring(words)))
	},
		Entry("without a kubeconfig file", "finding the API server: ",
			func() []string { return []string{"--kubeconfig=/does/not/exist"} }),
		Entry("with an invalid kubeconfig file", "finding the API server: ",
			func() []string { return []string{"--kubeconfig=process_test.go"} }),
		Entry("without a namespace for the lease", "--leader-election-namespace: must be set",
			func() []string { return []string{"--kubeconfig=" + cluster.Kubeconfig()} }),
	)

	It("ends with status 1 and an error message if an address is in use", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		code, text := run("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--metrics-bind-address="+
			listener.Addr().String())
		Expect(code).To(Equal(1))
		Expect(text).To(MatchRegexp(`"msg":"livesched stopped","error":".*` + listener.Addr().String() +
			`: bind: address already in use"`))
	})

	It("ends with status 1 and advice if the custom resources are not installed", func(ctx context.Context) {
		uninstallCRDs(ctx)
		code, text := run("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false")
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("does not serve SchedulerProfile in livesched.io/v1alpha1: install the " +
			"custom resource definitions first"))
	})

	It("ends with status 0 on SIGTERM, and releases its lease", func(ctx context.Context) {
		c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-election-namespace=default")
		c.expectReady(ctx)
		var lease coordinationv1.Lease
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: "livesched"}, &lease)).To(Succeed())
			g.Expect(lease.Spec.HolderIdentity).NotTo(HaveValue(BeEmpty()))
		}).Should(Succeed())
		Expect(c.terminate()).To(BeNumerically("<", tolerated))
		Expect(c.cmd.ProcessState.ExitCode()).To(Equal(0), c.output.String())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(&lease), &lease)).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(BeEmpty()))
	})

	It("ends with status 1 when it loses its lease", func(ctx context.Context) {
		c := livesched(leading()...)
		create(ctx, profile("mine"))
		Eventually(func(g Gomega) {
			var p v1alpha1.SchedulerProfile
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "mine"}, &p)).To(Succeed())
			g.Expect(p.Status.Active).NotTo(BeNil(), "it leads")
		}).Should(Succeed())
		stealLease(ctx)
		Eventually(c.ended).Should(BeClosed())
		Expect(c.cmd.ProcessState.ExitCode()).To(Equal(1), c.output.String())
		Expect(c.output.String()).To(ContainSubstring("leader election lost"))
	})

	It("ends at once when it loses its lease, whatever is in progress", func(ctx context.Context) {
		c := livesched(leading()...)
		mine := profile("mine")
		mine.Spec.Plugins = &v1alpha1.Plugins{PreBind: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: hangs}}}}
		stuck := objects.Pod("default", "stuck", "mine", "1", "1Gi")
		create(ctx, mine, objects.Node("n", "8", "16Gi", nil), stuck)
		Eventually(c.output.String).Should(ContainSubstring(hanging))
		stealLease(ctx)
		Eventually(c.ended).Should(BeClosed())
		Expect(c.cmd.ProcessState.ExitCode()).To(Equal(1), c.output.String())
		Expect(c.output.String()).To(ContainSubstring("leader election lost"))
		Expect(c.output.String()).
			NotTo(Or(ContainSubstring("Stopping with bindings under way"), ContainSubstring("exiting")),
				"it waits for nothing")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(stuck), stuck)).To(Succeed())
		Expect(stuck.Spec.NodeName).To(BeEmpty())
	})

	It("ends at once on a second signal", func(ctx context.Context) {
		c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false")
		mine := profile("mine")
		mine.Spec.Plugins = &v1alpha1.Plugins{PreBind: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: hangs}}}}
		create(ctx, mine, objects.Node("n", "8", "16Gi", nil), objects.Pod("default", "stuck", "mine", "1", "1Gi"))
		Eventually(c.output.String).Should(ContainSubstring(hanging))
		Expect(c.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(c.output.String).Should(ContainSubstring("Stopping"))
		Expect(c.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(c.ended).Should(BeClosed())
		Expect(c.cmd.ProcessState.ExitCode()).To(Equal(1), c.output.String())
		Expect(c.output.String()).To(ContainSubstring("Received a second signal; exiting"))
		Expect(c.output.String()).NotTo(ContainSubstring("Not all parts have stopped"))
	})

	It("recovers when the API server was unreachable for a while", func(ctx context.Context) {
		p := newProxy()
		c := livesched("--kubeconfig="+kubeconfigFor(cluster.Kubeconfig(), p.Address()), "--leader-elect=false")
		before, meanwhile := objects.Pod("default", "before", "mine", "1", "1Gi"),
			objects.Pod("default", "meanwhile", "mine", "1", "1Gi")
		create(ctx, profile("mine"), objects.Node("n", "4", "16Gi", nil), before)
		expectBound(ctx, before)

		refused, mend := cut(p)
		create(ctx, meanwhile)
		Expect(k8s.Delete(ctx, before, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(refused.Load).Should(BeNumerically(">", 3), "it retries")
		Expect(get(ctx, "http://"+c.probes+"/livez").Code).To(Equal(http.StatusOK), "restarting would not help")
		mend()

		expectBound(ctx, meanwhile)
		// The informers have received the events that they missed: the node has only one pod.
		big := objects.Pod("default", "big", "mine", "3", "1Gi")
		create(ctx, big)
		expectBound(ctx, big)
		Expect(c.ended).NotTo(BeClosed())
	})

	Context("ends within 10 seconds of SIGTERM", func() {
		It("while it waits for the first response of the API server", func() {
			c := waitsForFirstResponse()
			Expect(c.terminate()).To(BeNumerically("<", tolerated))
		})

		It("while it lacks the permission to read pods and nodes", func(ctx context.Context) {
			kubeconfig, err := cluster.KubeconfigAs("nobody", "system:authenticated")
			Expect(err).NotTo(HaveOccurred())
			c := livesched("--kubeconfig="+kubeconfig, "--leader-elect=false")
			Eventually(c.output.String).Should(ContainSubstring("forbidden"))
			Expect(c.terminate()).To(BeNumerically("<", tolerated), c.output.String())
			Expect(c.output.String()).NotTo(ContainSubstring(`"timeout":"9s"`), "it has nothing to wait for")
		})

		It("when the API server hangs", func(ctx context.Context) {
			p := newProxy()
			c := livesched("--kubeconfig="+kubeconfigFor(cluster.Kubeconfig(), p.Address()),
				"--leader-election-namespace=default")
			create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil))
			pod := objects.Pod("default", "before", "mine", "1", "1Gi")
			create(ctx, pod)
			expectBound(ctx, pod)
			Expect(p.Freeze()).To(Succeed())
			Expect(c.terminate()).To(BeNumerically("<", tolerated), c.output.String())
		})

		It("when a plugin hangs", func(ctx context.Context) {
			c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false")
			mine := profile("mine")
			mine.Spec.Plugins = &v1alpha1.Plugins{
				PreBind: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: hangs}}}}
			create(ctx, mine, objects.Node("n", "8", "16Gi", nil), objects.Pod("default", "stuck", "mine", "1", "1Gi"))
			Eventually(c.output.String).Should(ContainSubstring(hanging))
			Expect(c.terminate()).To(BeNumerically("<", tolerated), c.output.String())
		})
	})
})

// uninstallCRDs deletes the custom resource definitions until the end of the spec.
func uninstallCRDs(ctx context.Context) {
	GinkgoHelper()
	options := envtest.CRDInstallOptions{Paths: []string{filepath.Join(testcluster.Root(), "config", "crd", "bases")},
		ErrorIfPathMissing: true}
	Expect(envtest.UninstallCRDs(cluster.Config, options)).To(Succeed())
	DeferCleanup(func() { Expect(envtest.InstallCRDs(cluster.Config, options)).Error().NotTo(HaveOccurred()) })
	served := discovery.NewDiscoveryClientForConfigOrDie(cluster.Config)
	Eventually(func(g Gomega) {
		groups, err := served.ServerGroups()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(groups.Groups).NotTo(ContainElement(HaveField("Name", v1alpha1.GroupVersion.Group)))
	}).WithContext(ctx).Should(Succeed())
}

// leading returns the flags of a livesched that leads and gives up 10 seconds after its lease was
// stolen. That is the default deadline: on a busy machine, a shorter one could pass without a
// theft.
func leading() []string {
	return []string{"--kubeconfig=" + cluster.Kubeconfig(), "--leader-election-namespace=default",
		"--leader-elect-retry-period=200ms"}
}

// stealLease makes another process the leader.
func stealLease(ctx context.Context) {
	GinkgoHelper()
	stolen := metav1.NowMicro()
	Eventually(func() error {
		var lease coordinationv1.Lease
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: "livesched"}, &lease); err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = ptr.To("somebody-else"),
			&stolen, ptr.To[int32](3600)
		return k8s.Update(ctx, &lease)
	}).Should(Succeed())
}

// hangs is the name of an out-of-tree plugin that ignores its context, and hanging is its output.
const (
	hangs   = "Hangs"
	hanging = "this plugin hangs now"
)

type hangsPlugin struct{}

func newHangs(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return hangsPlugin{}, nil
}

func (hangsPlugin) Name() string { return hangs }

func (hangsPlugin) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod,
	string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (hangsPlugin) PreBind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	println(hanging)
	select {}
}
