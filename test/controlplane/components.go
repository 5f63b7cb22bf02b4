// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/controlplane/process"
)

// portTries is the number of attempts to start a component, each on another port, when another
// process takes the free port first.
const portTries = 3

// kwokConfig holds the stages of nodes and pods. kwok has none by default.
//
//go:embed kwok.yaml
var kwokConfig []byte

// component describes a component to comesUp.
type component struct {
	name, path string
	args       func(address string) []string
	// ready checks that the component itself is ready. A process that took its port first, such as
	// a component of another control plane, must fail the check, however healthy it is.
	ready func(address string) func(context.Context) error
}

// comesUp starts a component on a free loopback port and waits until it is ready. It returns the
// address as host:port.
func (c *ControlPlane) comesUp(ctx context.Context, comp component) (string, error) {
	for try := 1; ; try++ {
		port, err := process.FreePort()
		if err != nil {
			return "", err
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		err = c.comesUpAt(ctx, comp, address)
		if err == nil {
			return address, nil
		}
		var exit *process.ExitError
		if try == portTries || !errors.As(err, &exit) || !strings.Contains(exit.LogTail, "address already in use") {
			return "", err
		}
	}
}

// comesUpAt starts a component at an address and waits until it is ready.
func (c *ControlPlane) comesUpAt(ctx context.Context, comp component, address string) error {
	began := time.Now()
	child, err := c.run(comp.name, comp.path, comp.args(address))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout,
		fmt.Errorf("timed out after %s", c.opts.StartTimeout))
	defer cancel()
	if err := child.WaitReady(ctx, comp.ready(address)); err != nil {
		c.forgetEnded(child)
		return err
	}
	c.watch(child)
	c.setRestart(comp.name, func(ctx context.Context) error { return c.comesUpAt(ctx, comp, address) })
	fmt.Fprintf(c.opts.Progress, "%s listens on %s (pid %d, up in %s)\n", comp.name, address, child.PID(),
		time.Since(began).Round(10*time.Millisecond))
	return nil
}

func (c *ControlPlane) startEtcd(ctx context.Context, path string) error {
	address, err := c.comesUp(ctx, c.etcd(path))
	c.files.etcd = "http://" + address
	return err
}

func (c *ControlPlane) etcd(path string) component {
	return component{
		name: binaries.Etcd,
		path: path,
		args: func(address string) []string {
			return []string{
				"--name=" + c.files.etcdName,
				"--data-dir=" + filepath.Join(c.opts.Dir, "etcd"),
				"--listen-client-urls=http://" + address,
				"--advertise-client-urls=http://" + address,
				"--listen-peer-urls=http://127.0.0.1:0", // etcd has no peers
				"--unsafe-no-fsync",                     // the data does not outlive the control plane
				"--log-level=warn",
			}
		},
		ready: func(address string) func(context.Context) error { return etcdReady(address, c.files.etcdName) },
	}
}

func (c *ControlPlane) startAPIServer(ctx context.Context, path string) error {
	comp := c.apiServer(path)
	if c.opts.WithPodGroups {
		groups, err := podGroupFlags(ctx, path)
		if err != nil {
			return err
		}
		comp.args = func(address string) []string { return append(c.apiServerArgs(address), groups...) }
	}
	address, err := c.comesUp(ctx, comp)
	if err != nil {
		return err
	}
	c.config = c.files.restConfig("https://" + address)
	return c.files.writeKubeconfig(c.config.Host)
}

// groupGates are the gates with which Jobs have PodGroups, and PodGroups have parents and
// ResourceClaims, since Kubernetes 1.37. With the last one, devices can take from the resources of
// their node.
const groupGates = "GenericWorkload=true,WorkloadWithJob=true,TopologyAwareWorkloadScheduling=true," +
	"CompositePodGroup=true,DRAWorkloadResourceClaims=true,DRANodeAllocatableResources=true"

// podGroupFlags returns the flags with which kube-apiserver serves the PodGroups of Kubernetes:
// none if it does not have them.
func podGroupFlags(ctx context.Context, path string) ([]string, error) {
	running, err := versionOf(ctx, path)
	if err != nil {
		return nil, err
	}
	if running.LessThan(version.MajorMinor(1, 36)) {
		return nil, nil
	}
	if running.LessThan(version.MajorMinor(1, 37)) {
		return []string{
			"--runtime-config=scheduling.k8s.io/v1alpha2=true",
			"--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true",
		}, nil
	}
	return []string{
		"--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
		"--feature-gates=" + groupGates,
	}, nil
}

// versionOf asks a component of Kubernetes for its version.
func versionOf(ctx context.Context, path string) (*version.Version, error) {
	text, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its version: %w", path, err)
	}
	running, err := version.ParseSemantic(strings.TrimSpace(strings.TrimPrefix(string(text), "Kubernetes ")))
	if err != nil {
		return nil, fmt.Errorf("the version of %s: %w", path, err)
	}
	return running, nil
}

func (c *ControlPlane) apiServer(path string) component {
	return component{
		name: binaries.APIServer,
		path: path,
		args: c.apiServerArgs,
		ready: func(address string) func(context.Context) error {
			return apiServerReady(c.files.restConfig("https://" + address))
		},
	}
}

func (c *ControlPlane) apiServerArgs(address string) []string {
	host, port, _ := net.SplitHostPort(address) // JoinHostPort made the address
	args := []string{
		"--etcd-servers=" + c.files.etcd,
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--advertise-address=" + host,
		"--endpoint-reconciler-type=none", // no client in this cluster looks for the API server there
		"--tls-cert-file=" + c.files.servingCert,
		"--tls-private-key-file=" + c.files.servingKey,
		"--token-auth-file=" + c.files.tokens,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.files.serviceAccountKey,
		"--service-account-signing-key-file=" + c.files.serviceAccountKey,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
	}
	if !c.opts.WithControllerManager {
		args = append(args, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	}
	return append(args, c.opts.APIServerFlags...)
}

func (c *ControlPlane) startControllerManager(ctx context.Context, path string) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	flags := c.opts.ControllerManagerFlags
	if c.opts.WithPodGroups {
		running, err := versionOf(ctx, path)
		if err != nil {
			return err
		}
		if running.AtLeast(version.MajorMinor(1, 37)) {
			flags = append(slices.Clone(flags), "--feature-gates="+groupGates)
		}
	}
	_, err = c.comesUp(ctx, c.controllerManager(path, client, flags))
	return err
}

func (c *ControlPlane) controllerManager(path string, client kubernetes.Interface, flags []string) component {
	return component{
		name: binaries.ControllerManager,
		path: path,
		args: func(address string) []string {
			host, port, _ := net.SplitHostPort(address) // JoinHostPort made the address
			return append([]string{
				"--kubeconfig=" + c.files.kubeconfig,
				"--bind-address=" + host,
				"--secure-port=" + port,
				"--tls-cert-file=" + c.files.servingCert,
				"--tls-private-key-file=" + c.files.servingKey,
				"--leader-elect=false",
				"--service-account-private-key-file=" + c.files.serviceAccountKey,
				"--root-ca-file=" + c.files.servingCert,
				"--kube-api-qps=1000",
				"--kube-api-burst=2000",
			}, flags...)
		},
		// The API server admits a pod only when its namespace has the default account. A healthy
		// process is not enough.
		ready: func(address string) func(context.Context) error {
			healthy := healthy(c.files.restConfig("https://" + address))
			return func(ctx context.Context) error {
				if err := healthy(ctx); err != nil {
					return err
				}
				_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).
					Get(ctx, "default", metav1.GetOptions{})
				return err
			}
		},
	}
}

func (c *ControlPlane) startKwok(ctx context.Context, path string) error {
	config := filepath.Join(c.opts.Dir, "kwok.yaml")
	if err := os.WriteFile(config, kwokConfig, 0o644); err != nil {
		return err
	}
	_, err := c.comesUp(ctx, c.kwok(path, config))
	return err
}

func (c *ControlPlane) kwok(path, config string) component {
	return component{
		name: binaries.Kwok,
		path: path,
		args: func(address string) []string {
			return []string{
				"--config=" + config, // also prevents kwok from reading a configuration in the user's home
				"--kubeconfig=" + c.files.kubeconfig,
				"--manage-all-nodes=true",
				"--node-lease-duration-seconds=40",
				"--v=WARN", // at the default level, kwok logs every change of a pod
				"--server-address=" + address,
				"--tls-cert-file=" + c.files.servingCert,
				"--tls-private-key-file=" + c.files.servingKey,
			}
		},
		ready: func(address string) func(context.Context) error {
			return healthy(c.files.restConfig("https://" + address))
		},
	}
}
