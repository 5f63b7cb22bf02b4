// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/controlplane/process"
)

// liveschedGrace is the time in which livesched must stop. Its documentation promises ten seconds.
const liveschedGrace = 12 * time.Second

// sandboxConfig holds paths and sizes. After complete, all paths are absolute.
type sandboxConfig struct {
	root, dir, livesched string
	// rootfs is a root file system with /livesched, which runs confined to it. Empty: bin/livesched
	// runs as any program does.
	rootfs string
	nodes  int
	// bare ends the tour when livesched runs: there are no profiles and no pods.
	bare bool
}

// sandbox is a running cluster with livesched. One goroutine uses it; only cancel may be called
// from others.
type sandbox struct {
	sandboxConfig
	out *printer

	controlPlane *controlplane.ControlPlane
	scheduler    *process.Process // bin/livesched
	secure       string           // host:port of its secure port
	serving      servingFiles     // of its secure port
	client       client.WithWatch
	dashboard    *process.Process // kubectl livesched dashboard
	dashboardURL string

	// cancel ends the tour with the error of a dead component as the cause. over is closed when the
	// tour has ended.
	cancel context.CancelCauseFunc
	over   <-chan struct{}
}

func newSandbox(cfg sandboxConfig, out io.Writer) *sandbox {
	return &sandbox{sandboxConfig: cfg, out: &printer{out: out}}
}

// endWhenDead ends the tour when a component dies.
func (s *sandbox) endWhenDead(done <-chan struct{}, err func() error) {
	go func() {
		select {
		case <-done:
			if err := err(); err != nil {
				s.cancel(err)
			}
		case <-s.over:
		}
	}()
}

func (s *sandbox) startControlPlane(ctx context.Context) error {
	// Data of an earlier run. The lock is held, so no other process uses it.
	for _, name := range []string{"etcd", "credentials", "kubeconfig"} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	controlPlane, err := controlplane.Start(ctx, controlplane.Options{
		Dir: s.dir, WithControllerManager: true, WithKwok: true, WithPodGroups: true,
		Processors: goruntime.GOMAXPROCS(0), Progress: s.out,
	})
	if err != nil {
		return err
	}
	s.controlPlane = controlPlane
	s.endWhenDead(controlPlane.Done(), controlPlane.Err)

	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	s.client, err = client.NewWithWatch(controlPlane.Config(), client.Options{Scheme: scheme})
	return err
}

func (s *sandbox) createNodes(ctx context.Context) error {
	began := time.Now()
	if err := controlplane.CreateNodes(ctx, s.controlPlane.Config(), s.nodes); err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		return err
	}
	perZone, perSize := map[string]int{}, map[string]int{}
	for _, node := range nodes.Items {
		perZone[node.Labels[corev1.LabelTopologyZone]]++
		size := fmt.Sprintf("%s (%s CPU, %s)", node.Labels[corev1.LabelInstanceTypeStable], node.Status.Capacity.Cpu(),
			node.Status.Capacity.Memory())
		perSize[size]++
	}
	s.out.printf("zones: %s\n", counts(perZone))
	s.out.printf("sizes: %s\n", counts(perSize))
	s.out.printf("all ready after %s\n", round(time.Since(began)))
	return nil
}

// startLivesched runs bin/livesched with the permissions of its service account in config/rbac, not
// with those of an administrator.
func (s *sandbox) startLivesched(ctx context.Context) error {
	for _, dir := range []string{filepath.Join("crd", "bases"), "podgroup"} {
		if err := s.controlPlane.InstallCRDs(ctx, filepath.Join(s.root, "config", dir)); err != nil {
			return err
		}
	}
	const namespace = "livesched-system"
	home := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": namespace}}}
	if _, err := s.apply(ctx, home); err != nil {
		return err
	}
	if err := s.applyAll(ctx, filepath.Join(s.root, "config", "rbac"), "role.yaml", "role_binding.yaml",
		"revisions_role.yaml", "revisions_role_binding.yaml", "leader_election_role.yaml",
		"leader_election_role_binding.yaml", "secure_port_roles.yaml", "serving_certs.yaml",
		"policy_editor_role.yaml", "profile_editor_role.yaml", "viewer_role.yaml", "client_role.yaml",
		"metrics_reader_role.yaml", "debugger_role.yaml"); err != nil {
		return err
	}
	s.out.printf("CRDs and roles of config/ are applied\n")
	kubeconfig, err := s.controlPlane.KubeconfigAs("system:serviceaccount:"+namespace+":livesched",
		"system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
	if err != nil {
		return err
	}
	probes, err := freeAddress()
	if err != nil {
		return err
	}
	if s.secure, err = freeAddress(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.secure)
	if err != nil {
		return err
	}
	if s.serving, err = s.createServingFiles(host); err != nil {
		return err
	}
	began := time.Now()
	livesched := process.Config{
		Name: "livesched",
		Path: s.livesched,
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--bind-address=" + host, "--secure-port=" + port,
			"--tls-cert-file=" + s.serving.cert, "--tls-private-key-file=" + s.serving.key,
			"--health-probe-bind-address=" + probes,
			"--leader-election-namespace=" + namespace,
		},
		LogFile: filepath.Join(s.dir, "livesched.log"),
	}
	if s.rootfs != "" {
		if livesched, err = confined(livesched, s.rootfs, kubeconfig, s.serving.cert, s.serving.key); err != nil {
			return err
		}
	}
	if s.scheduler, err = process.Start(livesched); err != nil {
		return err
	}
	s.endWhenDead(s.scheduler.Done(), s.scheduler.Err)
	if err := s.scheduler.WaitReady(ctx, process.HTTPReady("http://"+probes+"/readyz")); err != nil {
		return err
	}
	s.out.printf("livesched is ready (pid %d, up in %s)\n", s.scheduler.PID(), round(time.Since(began)))
	if err := s.writeEnvironment(); err != nil {
		return err
	}
	s.out.printf("to use kubectl and kubectl livesched in another terminal: source %s\n", relative(s.environmentFile()))
	if s.rootfs != "" {
		if err := checkConfined(ctx, s.scheduler.PID()); err != nil {
			return err
		}
		s.out.printf("it runs as user 65532, with a read-only root and without capabilities\n")
	}
	return s.startDashboard(ctx)
}

func freeAddress() (string, error) {
	port, err := process.FreePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// wait returns nil on a signal to stop, and an error when a component has died.
func (s *sandbox) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		fmt.Fprintln(s.out.out)
		return nil
	case <-s.controlPlane.Done():
		return s.controlPlane.Err()
	case <-s.scheduler.Done():
		return s.scheduler.Err()
	case <-s.dashboard.Done():
		return s.dashboard.Err()
	}
}

// stop stops everything that was started.
func (s *sandbox) stop() error {
	var errs []error
	if s.dashboard != nil {
		errs = append(errs, s.dashboard.Stop(dashboardGrace))
	}
	if s.scheduler != nil {
		errs = append(errs, s.scheduler.Stop(liveschedGrace))
	}
	if s.controlPlane != nil {
		errs = append(errs, s.controlPlane.Stop())
	}
	return errors.Join(errs...)
}

// workload is one Deployment of the tour.
type workload struct {
	name, schedulerName string
	replicas            int32
}

// deploy creates a Deployment and waits until all its pods run.
func (s *sandbox) deploy(ctx context.Context, w workload) error {
	if err := s.client.Create(ctx, w.deployment()); err != nil {
		return err
	}
	err := await(ctx, s.client, &appsv1.DeploymentList{}, client.ObjectKey{Namespace: namespace,
		Name: w.name}, func(d *appsv1.Deployment) (bool, error) {
		return d.Status.AvailableReplicas == w.replicas, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("not all pods of %s run: %w", w.name, err), s.explain(w))
	}
	return nil
}

// explain returns why a workload's pods do not run, from their conditions. It has its own context,
// because the caller's has ended.
func (s *sandbox) explain(w workload) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pods, err := s.pods(ctx, w)
	if err != nil {
		return err
	}
	waiting, why := 0, "no scheduler has tried them: they have no PodScheduled condition"
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning {
			continue
		}
		waiting++
		if _, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); c != nil &&
			c.Status == corev1.ConditionFalse {
			why = c.Message
		}
	}
	return fmt.Errorf("%d of %d pods exist, %d of them wait: %s", len(pods), w.replicas, waiting, why)
}

func (s *sandbox) pods(ctx context.Context, w workload) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := s.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(w.labels()))
	return pods.Items, err
}
