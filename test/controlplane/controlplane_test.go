// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/leaks"
)

// startForTest starts a control plane for a test that itself asserts how it stops.
func startForTest(t *testing.T, opts Options) *ControlPlane {
	t.Helper()
	opts.Progress = t.Output()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() }) // for a test that fails before its own Stop
	return c
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// expectGone asserts that no process of a stopped control plane is left.
func expectGone(g Gomega, c *ControlPlane) {
	for _, child := range c.children {
		g.Expect(syscall.Kill(child.PID(), 0)).To(MatchError(syscall.ESRCH), "%s, pid %d", child.Name(), child.PID())
	}
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{SchedulerName: "the-test",
			Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
}

// bindAll binds every pod of a namespace that has no node yet, round robin.
func bindAll(ctx context.Context, client kubernetes.Interface, namespace string, nodes int) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return err
	}
	for i, pod := range pods.Items {
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
			Target: corev1.ObjectReference{Kind: "Node", Name: Node(i % nodes).Name}}
		if err := client.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func TestWholeControlPlane(t *testing.T) {
	defer leaks.Verify(t, goleak.IgnoreCurrent())
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	const nodes, replicas = 30, 12
	c := startForTest(t, Options{WithControllerManager: true, WithKwok: true})
	g.Expect(CreateNodes(t.Context(), c.Config(), nodes)).To(Succeed())
	client := clientFor(t, c.Config())

	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Items).To(HaveLen(nodes))
	kinds := map[string]int{}
	for _, node := range list.Items {
		kinds[node.Labels[corev1.LabelTopologyZone]+"/"+node.Labels[corev1.LabelInstanceTypeStable]]++
		g.Expect(node.Status.Allocatable).To(HaveKey(corev1.ResourceCPU), "kwok keeps what the node was created with")
		g.Expect(node.Spec.Taints).To(BeEmpty())
	}
	g.Expect(kinds).To(HaveLen(9), "every size in every zone")
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(leases.Items).To(HaveLen(nodes))

	t.Run("the pods of a Deployment are made, run once bound, and vanish with it", func(t *testing.T) {
		g := NewWithT(t)
		g.SetDefaultEventuallyTimeout(2 * time.Minute)
		labels := map[string]string{"app": "web"}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](replicas),
				Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels)},
		}
		_, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(func(g Gomega) {
			g.Expect(bindAll(t.Context(), client, "default", nodes)).To(Succeed())
			got, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Status.AvailableReplicas).To(BeEquivalentTo(replicas))
		}).Should(Succeed())
		pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		g.Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods.Items {
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
			g.Expect(pod.Status.PodIP).To(HavePrefix("10.244."))
		}
		foreground := metav1.DeletePropagationForeground
		g.Expect(client.AppsV1().Deployments("default").
			Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &foreground})).To(Succeed())
		g.Eventually(func() ([]corev1.Pod, error) {
			pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
			return pods.Items, err
		}).Should(BeEmpty())
	})
	t.Run("a Job completes once its pod is bound", func(t *testing.T) {
		g := NewWithT(t)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"},
			Spec: batchv1.JobSpec{Template: podTemplate(nil)}}
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(func(g Gomega) {
			g.Expect(bindAll(t.Context(), client, "default", nodes)).To(Succeed())
			got, err := client.BatchV1().Jobs("default").Get(t.Context(), "once", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Status.Succeeded).To(BeEquivalentTo(1))
		}).WithTimeout(2 * time.Minute).Should(Succeed())
	})
	t.Run("a kubeconfig for somebody else has that one's rights", func(t *testing.T) {
		g := NewWithT(t)
		path, err := c.KubeconfigAs("somebody", "system:authenticated")
		g.Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.BuildConfigFromFlags("", path)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = clientFor(t, config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		g.Expect(err).To(MatchError(ContainSubstring(`User "somebody"`)))

		config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
		g.Expect(err).NotTo(HaveOccurred())
		_, err = clientFor(t, config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	})

	g.Expect(c.Err()).NotTo(HaveOccurred())
	g.Expect(c.children).To(HaveLen(4))
	g.Expect(c.Stop()).To(Succeed())
	g.Expect(c.Err()).NotTo(HaveOccurred(), "a Stop is no failure")
	expectGone(g, c)
	g.Expect(c.Dir()).NotTo(BeADirectory())
}

func TestControlPlaneWithoutControllers(t *testing.T) {
	defer leaks.Verify(t, goleak.IgnoreCurrent())
	g := NewWithT(t)
	c := startForTest(t, Options{Dir: t.TempDir()})
	client := clientFor(t, c.Config())

	t.Run("it has the pinned version, which the nodes claim too", func(t *testing.T) {
		g := NewWithT(t)
		root, err := binaries.FindRoot()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(binaries.KubernetesVersion(root)).To(Equal(kubeletVersion))
		if os.Getenv(binaries.AssetsEnv) == "" {
			info, err := client.Discovery().ServerVersion()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info.GitVersion).To(Equal(kubeletVersion))
		}
	})
	t.Run("a pod is admitted in a new namespace and a node is not tainted", func(t *testing.T) {
		g := NewWithT(t)
		_, err := client.CoreV1().Namespaces().
			Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: podTemplate(nil).Spec}
		_, err = client.CoreV1().Pods("new").Create(t.Context(), pod, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		node, err := client.CoreV1().Nodes().Create(t.Context(), Node(7), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(node.Spec.Taints).To(BeEmpty())
	})
	t.Run("an API server and an etcd that ended are restarted at their addresses with their data", func(t *testing.T) {
		g := NewWithT(t)
		client := clientFor(t, c.Config())
		_, err := client.CoreV1().Namespaces().
			Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		for name, kill := range map[string]bool{binaries.APIServer: false, binaries.Etcd: true} {
			restart, err := c.End(name, kill)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = c.PID(name)
			g.Expect(err).To(MatchError(ContainSubstring("does not run")))
			g.Expect(restart(t.Context())).To(Succeed())
			g.Expect(c.PID(name)).NotTo(BeZero())
		}
		g.Expect(c.Err()).NotTo(HaveOccurred())
		g.Eventually(func() error {
			_, err := client.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{})
			return err
		}).Should(Succeed())
	})
	t.Run("CRDs are installed and served, and a directory without them is an error", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		g.Expect(os.WriteFile(filepath.Join(dir, "crd.yaml"), []byte(exampleCRD), 0o644)).To(Succeed())
		g.Expect(c.InstallCRDs(t.Context(), dir)).To(Succeed())
		g.Expect(client.Discovery().ServerResourcesForGroupVersion("example.com/v1")).NotTo(BeNil())
		missing := filepath.Join(dir, "missing")
		g.Expect(c.InstallCRDs(t.Context(), missing)).To(MatchError(ContainSubstring(missing)))
	})

	pid, err := c.PID(binaries.APIServer)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
	g.Eventually(c.Done()).WithTimeout(2 * time.Minute).Should(BeClosed())
	g.Expect(c.Err()).To(MatchError(And(ContainSubstring("kube-apiserver ended with signal: killed"),
		ContainSubstring("kube-apiserver.log"))))
	g.Expect(c.Stop()).To(MatchError(ContainSubstring("kube-apiserver ended")))
	expectGone(g, c)
	g.Expect(c.Dir()).To(BeADirectory(), "it was the caller's")
}

// TestAnotherPort has etcd listen on a port that is taken, and then on a free one, as Start does
// when another process takes the free port first.
func TestAnotherPort(t *testing.T) {
	g := NewWithT(t)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	set, err := binaries.Ensure(t.Context(), binaries.Config{Progress: t.Output()}, binaries.Etcd)
	g.Expect(err).NotTo(HaveOccurred())
	c := &ControlPlane{opts: Options{Dir: t.TempDir(), StartTimeout: time.Minute, Processors: 1, Progress: t.Output()}}
	t.Cleanup(func() { _ = c.Stop() })
	c.files, err = writeCredentials(c.opts.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	etcd := c.etcd(set.Paths[binaries.Etcd])
	g.Expect(c.comesUpAt(t.Context(), etcd, other.Listener.Addr().String())).
		To(MatchError(ContainSubstring("address already in use")))
	_, err = c.comesUp(t.Context(), etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Stop()).To(Succeed(), "etcd had ended at the first port only")
}

// TestPortsOfAnotherControlPlane has each component listen on the port of the same component of
// another control plane, which is healthy. Nothing but names and certificates distinguishes them.
func TestPortsOfAnotherControlPlane(t *testing.T) {
	g := NewWithT(t)
	var progress strings.Builder
	other, err := Start(t.Context(), Options{WithControllerManager: true, WithKwok: true, Progress: &progress})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = other.Stop() })
	addresses := map[string]string{}
	for _, match := range regexp.MustCompile(`(\S+) listens on (\S+) `).FindAllStringSubmatch(progress.String(), -1) {
		addresses[match[1]] = match[2]
	}
	g.Expect(addresses).To(HaveLen(4), progress.String())
	set, err := binaries.Ensure(t.Context(), binaries.Config{Progress: t.Output()}, other.programs()...)
	g.Expect(err).NotTo(HaveOccurred())

	dir := t.TempDir()
	files, err := writeCredentials(dir)
	g.Expect(err).NotTo(HaveOccurred())
	files.etcd, files.kubeconfig = other.files.etcd, other.files.kubeconfig
	c := &ControlPlane{opts: Options{Dir: dir, StartTimeout: time.Minute, Processors: 1, Progress: t.Output()},
		files: files, failed: make(chan struct{})}
	t.Cleanup(func() { _ = c.Stop() })
	for _, comp := range []component{
		c.etcd(set.Paths[binaries.Etcd]),
		c.apiServer(set.Paths[binaries.APIServer]),
		c.controllerManager(set.Paths[binaries.ControllerManager], clientFor(t, other.Config()), nil),
		c.kwok(set.Paths[binaries.Kwok], filepath.Join(other.Dir(), "kwok.yaml")),
	} {
		t.Run(comp.name, func(t *testing.T) {
			g := NewWithT(t)
			err := c.comesUpAt(t.Context(), comp, addresses[comp.name])
			g.Expect(err).To(MatchError(ContainSubstring("address already in use")))
			g.Expect(other.Err()).NotTo(HaveOccurred())
		})
	}
	g.Expect(c.children).To(BeEmpty(), "all have ended")
	g.Expect(other.Stop()).To(Succeed())
}

func TestFailedStartLeavesNothingBehind(t *testing.T) {
	defer leaks.Verify(t, goleak.IgnoreCurrent())
	t.Run("a component that ends is named with the end of its log", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		_, err := Start(t.Context(), Options{Dir: dir, APIServerFlags: []string{"--no-such-flag"}})
		g.Expect(err).To(MatchError(And(ContainSubstring("control plane: kube-apiserver ended with exit status 1"),
			ContainSubstring("unknown flag: --no-such-flag"))))
		g.Expect(filepath.Join(dir, "etcd.log")).To(BeARegularFile())
		expectNoneIn(g, dir)
	})
	t.Run("so is one that does not become ready in time", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		_, err := Start(t.Context(), Options{Dir: dir, StartTimeout: time.Nanosecond})
		g.Expect(err).To(MatchError(ContainSubstring("etcd is not ready: timed out after 1ns")))
		expectNoneIn(g, dir)
	})
	t.Run("and a context that ends ends the start", func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("changed my mind"))
		dir := t.TempDir()
		_, err := Start(ctx, Options{Dir: dir})
		g.Expect(err).To(MatchError(ContainSubstring("changed my mind")))
		expectNoneIn(g, dir)
	})
}

// expectNoneIn asserts that no running process has a directory in its command line. Without /proc
// it asserts nothing.
func expectNoneIn(g Gomega, dir string) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended since
		}
		g.Expect(string(line)).NotTo(ContainSubstring(dir))
	}
}

const exampleCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object}
`
