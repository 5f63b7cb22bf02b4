// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
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

// startSecurely runs livesched with a secure port for the rest of a spec, and returns the flags of
// the commands that ask it.
func startSecurely(ctx context.Context, change ...func(*liveschedapp.Options)) (flags []string) {
	GinkgoHelper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	Expect(os.WriteFile(certFile, certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(keyFile, key, 0o600)).To(Succeed())
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	startLivesched(ctx, append(change, func(o *liveschedapp.Options) {
		o.Secure.Port, o.Secure.CertFile, o.Secure.KeyFile = port, certFile, keyFile
	})...)
	return []string{"--livesched-url", fmt.Sprintf("https://127.0.0.1:%d", port), "--livesched-ca", certFile}
}

var _ = Describe("status", func() {
	It("shows active revisions, pending pods and problems", func(ctx context.Context) {
		livesched := startSecurely(ctx)
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
		create(ctx, gated, objects.Node("small", "500m", "16Gi", nil),
			objects.Pod("default", "stuck", "good", "1", "1Gi"))
		Expect(testcluster.Update(ctx, k8s, broken,
			func(p *v1alpha1.SchedulerProfile) { weight("NoSuchPlugin", 1)(&p.Spec) })).To(Succeed())
		status := func(args ...string) outcome {
			return kubectl(ctx, append(append([]string{"status"}, args...), livesched...)...)
		}

		Eventually(func(g Gomega) {
			got := status("-o", "wide")
			g.Expect(got.code).To(BeZero(), got.errOut)
			g.Expect(columns(got.out, "good")).
				To(HaveExactElements("good", "True", "good", "True", "True", good.Status.Active.Revision,
					Not(BeEmpty()), "1", "default@1", "0", "0", "1", "1"))
			g.Expect(columns(got.out, "broken")).
				To(HaveExactElements("broken", "False", "broken", "False", "False", broken.Status.Active.Revision,
					Not(BeEmpty()), "2", "(1", "active)", "default@1", "0", "0", "0", "0"))
			g.Expect(columns(got.out, "default")).
				To(HaveExactElements("default", "True", "True", "True", "1", "broken,good"))
			g.Expect(got.out).To(ContainSubstring(`schedulerprofile/broken: Accepted is False (UnknownPlugin): ` +
				`spec.plugins.score.enabled[0].name: unknown plugin "NoSuchPlugin"`))
			g.Expect(got.out).To(ContainSubstring("schedulerprofile/broken: Programmed is False (KeptLastGood)"))
			got = status()
			g.Expect(columns(got.out, "PROFILE")).
				To(HaveExactElements("PROFILE", "READY", "REVISION", "POLICY", "PENDING", "UNSCHEDULABLE"))
			g.Expect(columns(got.out, "good")).
				To(HaveExactElements("good", "True", good.Status.Active.Revision, "default@1", "2", "1"))
			g.Expect(columns(got.out, "broken")).
				To(HaveExactElements("broken", "False", broken.Status.Active.Revision, "default@1", "0", "0"))
			g.Expect(columns(got.out, "default")).To(HaveExactElements("default", "True", "1", "broken,good"))
			g.Expect(got.out).NotTo(ContainSubstring("unknown:"))
		}).WithContext(ctx).Should(Succeed())

		By("writing data")
		var report struct {
			PodsUnknown string
			Profiles    []struct {
				Name string
				Pods map[string]int
			}
		}
		Expect(yaml.Unmarshal([]byte(status("good", "-o", "yaml").out), &report)).To(Succeed())
		Expect(report.PodsUnknown).To(BeEmpty())
		Expect(report.Profiles).
			To(HaveExactElements(HaveField("Pods",
				map[string]int{"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1})))

		By("accepting names as kubectl writes them")
		for _, name := range []string{"good", "profile/good", "sprof/good", "schedulerprofile.livesched.io/good"} {
			got := status(name)
			Expect(got.code).To(BeZero(), got.errOut)
			Expect(columns(got.out, "good")).To(HaveLen(6))
			Expect(got.out).NotTo(ContainSubstring("broken "))
		}
	}, SpecTimeout(5*time.Minute))

	It("shows no numbers of pods without an answer, and why, with the role that is missing", func(ctx context.Context) {
		livesched := startSecurely(ctx)
		p := profile("good")
		create(ctx, p)
		expectProgrammed(ctx, p)
		create(ctx, objects.Pod("default", "stuck", "good", "1", "1Gi"))
		unknown := func(got outcome, because string) {
			GinkgoHelper()
			Expect(got.code).To(BeZero(), got.errOut)
			Expect(columns(got.out, "good")).
				To(HaveExactElements("good", "True", p.Status.Active.Revision, Not(BeEmpty()), "-", "-"))
			lines := strings.Split(strings.TrimSpace(got.out), "\n")
			Expect(lines[len(lines)-1]).
				To(And(HavePrefix("The numbers of pods are unknown: "), ContainSubstring(because)))
		}
		unknown(kubectl(ctx, "status"), "no pod of livesched runs in namespace livesched-system")
		unknown(kubectl(ctx, "status", "--livesched-url=https://127.0.0.1:1"), "https://127.0.0.1:1 cannot be reached")
		Expect(kubectl(ctx, "status", "-o", "json").out).
			To(And(ContainSubstring(`"podsUnknown": "no pod of livesched`), Not(ContainSubstring(`"pods":`))))

		user := newUser(ctx, "looks")
		Expect(kubectlAs(ctx, user, "status").errOut).To(And(
			ContainSubstring(`cannot list resource "schedulerprofiles"`),
			HaveSuffix("the ClusterRole livesched-viewer permits reading them, and livesched-profile-editor changing "+
				"them, with a ClusterRoleBinding\n")))
		lent(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "looks"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"livesched.io"}, Resources: []string{"schedulerprofiles", "schedulingpolicies"},
				Verbs: []string{"list"}},
		}}, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "looks"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "looks"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: user.Namespace, Name: user.Name}},
		})
		Eventually(func() int { return kubectlAs(ctx, user, "status").code }).WithContext(ctx).Should(BeZero())
		unknown(kubectlAs(ctx, user, "status"), "the Role livesched-client in livesched-system permits it")
		unknown(kubectlAs(ctx, user, append([]string{"status"}, livesched...)...),
			`cannot list resource "queues" in API group "livesched.io" at the cluster scope: the ClusterRole `+
				`livesched-viewer permits it`)
	}, SpecTimeout(5*time.Minute))

	It("reports an object that livesched has not processed", func(ctx context.Context) {
		create(ctx, profile("new"), policy("other", 1))
		got := kubectl(ctx, "status", "new", "-o", "wide")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(columns(got.out, "new")).
			To(HaveExactElements("new", "Unknown", "new", "Unknown", "Unknown", "-", "-", "1", "default", "-", "-",
				"-", "-"))
		Expect(got.out).To(ContainSubstring("schedulerprofile/new: livesched has not processed it"))
		Expect(got.out).NotTo(ContainSubstring("other"))
	})

	It("keeps its tables within 80 columns, and shows whole names with -o wide", func(ctx context.Context) {
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
			Expect(len([]rune(line))).To(BeNumerically("<=", 80), line)
		}
		Expect(kubectl(ctx, "status", "-o", "wide").out).To(ContainSubstring(long + "19"))
	})

	It("follows changes with a watch, and numbers of pods with one request", func(ctx context.Context) {
		livesched := startSecurely(ctx)
		p := profile("a")
		create(ctx, objects.Node("small", "500m", "16Gi", nil))
		create(ctx, p)
		expectProgrammed(ctx, p)
		proxy, requests := recordRequests()
		watching, stop := context.WithCancel(ctx)
		defer stop()
		out := gbytes.NewBuffer()
		ended := make(chan int)
		go func() {
			defer close(ended)
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: GinkgoWriter}
			args := slices.Concat([]string{"--kubeconfig", cluster.Kubeconfig(), "status", "profile/a", "-w"}, proxy,
				livesched)
			ended <- app.Run(watching, args, streams, nil)
		}()
		Eventually(out).WithContext(ctx).Should(gbytes.Say(`a +True +` + p.Status.Active.Revision + ` +\S+ +0 +0`))
		change(ctx, p, weight("NodeAffinity", 3))
		Eventually(out).WithContext(ctx).
			Should(gbytes.Say(`\n\d\d:\d\d:\d\d\n(?s:.*)a +True +` + p.Status.Active.Revision))
		create(ctx, objects.Pod("default", "stuck-1", "a", "1", "1Gi"))
		Eventually(out).WithContext(ctx).Should(gbytes.Say(`a +True +\S+ +\S+ +1 +`))
		create(ctx, objects.Pod("default", "stuck-2", "a", "1", "1Gi"))
		Eventually(out).WithContext(ctx).Should(gbytes.Say(`a +True +\S+ +\S+ +2 +`))
		change(ctx, p, weight("NodeAffinity", 4))
		Eventually(out).WithContext(ctx).Should(gbytes.Say(`a +True +` + p.Status.Active.Revision))
		stop()
		Eventually(ended).WithContext(ctx).Should(Receive(BeZero()))

		lists := map[string]int{}
		for _, request := range requests() {
			Expect(request.Path).NotTo(HaveSuffix("/pods"), "the command lists no pods")
			if request.Query().Get("watch") == "" {
				lists[request.Path]++
			}
		}
		for _, resource := range []string{"schedulerprofiles", "schedulingpolicies"} {
			Expect(lists["/apis/livesched.io/v1alpha1/"+resource]).
				To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)),
					"one for the first table, one at most to begin the watch")
		}
	}, SpecTimeout(5*time.Minute))

	It("takes livesched's namespace from --livesched-namespace, and still from -n", func(ctx context.Context) {
		for _, flag := range []string{"--livesched-namespace", "-n", "--namespace"} {
			Expect(kubectl(ctx, "status", flag, kept).out).
				To(ContainSubstring("no pod of livesched runs in namespace kept"), flag)
		}
		Expect(kubectl(ctx, "status", "--help").out).NotTo(ContainSubstring("--namespace"))
		Expect(kubectl(ctx, "options").out).To(ContainSubstring("--livesched-namespace="))
	})

	It("suggests names for those that do not exist", func(ctx context.Context) {
		create(ctx, profile("binpack"), policy("shared", 1))
		for arg, want := range map[string]string{
			"bin-pack":         `there is no SchedulerProfile "bin-pack": did you mean binpack?`,
			"sprof/binpak":     `there is no SchedulerProfile "binpak": did you mean binpack?`,
			"nobody":           `there is no SchedulerProfile "nobody"`,
			"policy/shared":    `"policy/shared": must name a profile, as NAME, profile/NAME or sprof/NAME`,
			"profile/":         "specify the name of the profile: profile/NAME",
			"--livesched-ca=x": `--livesched-ca (LIVESCHED_CA): has no effect without --livesched-url (LIVESCHED_URL)`,
		} {
			Expect(kubectl(ctx, "status", arg)).To(Equal(outcome{code: 2, errOut: "error: " + want + "\n"}), arg)
		}
	})
})

// recordRequests runs a proxy in front of the API server for the rest of a spec. It returns the
// flags that select the proxy, and the URLs that were requested there.
func recordRequests() (flags []string, requests func() []*url.URL) {
	GinkgoHelper()
	target, err := url.Parse(cluster.Config.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = transport, -1
	var mu sync.Mutex
	var seen []*url.URL
	recorder := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		at := *r.URL
		seen = append(seen, &at)
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	DeferCleanup(recorder.Close)
	authority := file(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: recorder.Certificate().Raw})))
	return []string{"--server", recorder.URL, "--certificate-authority", authority}, func() []*url.URL {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}
