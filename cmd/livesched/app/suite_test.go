// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/controlplane/process"
	e2e "github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/testcluster"
)

// asCommand is an environment variable that makes the test binary the livesched command, with a
// plugin that hangs: see command.
const asCommand = "LIVESCHED_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(app.Main(os.Args[1:], framework.Registry{hangs: newHangs}))
	}
	// Before all tests: what one has started may still log while the next one runs.
	if os.Getenv(app.Alone) == "" {
		e2e.LogToGinkgo()
	}
	os.Exit(m.Run())
}

// The suite runs livesched in the test's process, or in a process of its own, against a real API
// server that logs every request.
func TestApp(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(40 * time.Millisecond) // each poll is a request
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	RunSpecs(t, "The livesched command")
}

var (
	cluster  *testcluster.Cluster
	k8s      client.Client
	auditLog string
	// clientCA signs client certificates that the API server accepts, and proxyCA the one by which
	// it makes itself known when it passes requests on.
	clientCA, proxyCA *authority
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

var _ = BeforeSuite(func(ctx context.Context) {
	dir := GinkgoT().TempDir()
	policy := filepath.Join(dir, "audit-policy.yaml")
	auditLog = filepath.Join(dir, "audit.log")
	clientCA, proxyCA = newAuthority(), newAuthority()
	clientCAFile := filepath.Join(dir, "client-ca.crt")
	Expect(os.WriteFile(clientCAFile, clientCA.pem, 0o600)).To(Succeed())
	Expect(os.WriteFile(policy, []byte(auditPolicy), 0o600)).To(Succeed())
	var err error
	cluster, err = testcluster.StartWith(ctx, controlplane.Options{
		Progress:      os.Stderr,
		WithPodGroups: true,
		APIServerFlags: append(proxyFlags(dir), []string{
			"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog, "--client-ca-file=" + clientCAFile,
			// The limits of a small API server, which one client can reach.
			"--max-requests-inflight=20", "--max-mutating-requests-inflight=10",
			// For livesched's feature gate of the same name. This API is off by default.
			"--feature-gates=DRADeviceTaintRules=true", "--runtime-config=resource.k8s.io/v1beta2=true",
		}...),
	})
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
	create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}, NodeTimeout(5*time.Minute))

// proxyFlags returns the flags with which the API server makes itself known when it passes requests
// on, as kubeadm sets them. It writes the files.
func proxyFlags(dir string) []string {
	GinkgoHelper()
	certificate, key := proxyCA.issue("front-proxy-client")
	files := map[string][]byte{"proxy-ca.crt": proxyCA.pem, "proxy.crt": certificate, "proxy.key": key}
	for name, text := range files {
		Expect(os.WriteFile(filepath.Join(dir, name), text, 0o600)).To(Succeed())
	}
	return []string{
		"--proxy-client-cert-file=" + filepath.Join(dir, "proxy.crt"),
		"--proxy-client-key-file=" + filepath.Join(dir, "proxy.key"),
		"--requestheader-client-ca-file=" + filepath.Join(dir, "proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
}

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
	}
})

// The cluster is cleared after the spec's livesched has stopped, because a leader creates its lease
// again.
var _ = BeforeEach(func() {
	DeferCleanup(func(ctx context.Context) { Expect(cluster.Clear(ctx)).To(Succeed()) })
})

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed())
	}
}

// createUntilEnd creates objects, and deletes them at the end of the spec or container.
func createUntilEnd(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	create(ctx, objects...)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range objects {
			Expect(k8s.Delete(ctx, object)).To(Succeed())
		}
	})
}

func profile(name string) *v1alpha1.SchedulerProfile {
	return &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// expectBound waits until a pod is bound.
func expectBound(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// freeAddress returns a loopback address with a free port.
func freeAddress() string {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// forbidden returns the requests of a user that the API server has forbidden since a time.
func forbidden(user string, since time.Time) []auditv1.Event {
	GinkgoHelper()
	var requests []auditv1.Event
	for _, e := range audited(user, since) {
		if e.ResponseStatus != nil && e.ResponseStatus.Code == 403 {
			requests = append(requests, e)
		}
	}
	return requests
}

// audited returns the requests of a user since a time.
func audited(user string, since time.Time) []auditv1.Event {
	GinkgoHelper()
	log, err := os.ReadFile(auditLog)
	Expect(err).NotTo(HaveOccurred())
	var all []auditv1.Event
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the API server is still writing it
		}
		if !bytes.Contains(line, []byte(user)) {
			continue // most lines are about other users, and decoding takes long
		}
		var e auditv1.Event
		Expect(json.Unmarshal(line, &e)).To(Succeed())
		sender := e.User.Username
		if e.ImpersonatedUser != nil {
			sender = e.ImpersonatedUser.Username
		}
		if sender == user && e.RequestReceivedTimestamp.After(since) {
			all = append(all, e)
		}
	}
	return all
}
