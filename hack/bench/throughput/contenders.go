// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/controlplane/binaries"
	"github.com/livesched/livesched/internal/controlplane/process"
)

const (
	// runTimeout bounds one run.
	runTimeout = 10 * time.Minute
	stopGrace  = 12 * time.Second
)

// contender binds the backlog, one way or another.
type contender struct {
	name string
	// start begins binding and returns at once; stop ends it and returns the CPU time that it took, if that is known.
	start func(ctx context.Context) (stop func() (cpu time.Duration, err error), err error)
}

// result of one run.
type result struct {
	podsPerSecond float64
	cpuPerPod     time.Duration
	nodesUsed     int
}

func (r result) String() string {
	cpu := "       -"
	if r.cpuPerPod > 0 {
		cpu = fmt.Sprintf("%5.2f ms", float64(r.cpuPerPod)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%7.0f pods/s   CPU/pod %s   nodes used %d", r.podsPerSecond, cpu, r.nodesUsed)
}

// measure has a contender bind a fresh backlog.
func (b *bench) measure(ctx context.Context, c contender) (r result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, fmt.Errorf("not done within %v", runTimeout))
	defer cancel()
	b.pods.reset()
	if err := b.createPods(ctx); err != nil {
		return r, fmt.Errorf("creating the pods: %w", err)
	}
	if err := b.pods.wait(ctx, func(p *watchedPods) bool { return p.known == b.options.pods }); err != nil {
		return r, err
	}
	stop, err := c.start(ctx)
	if err != nil {
		return r, err
	}
	waitErr := b.pods.wait(ctx, func(p *watchedPods) bool { return p.bound == b.options.pods })
	cpu, stopErr := stop()
	if err := errors.Join(waitErr, stopErr); err != nil {
		return r, err
	}
	r = result{
		podsPerSecond: float64(b.options.pods-1) / b.pods.last.Sub(b.pods.first).Seconds(),
		cpuPerPod:     cpu / time.Duration(b.options.pods),
		nodesUsed:     len(b.pods.perNode),
	}
	return r, b.deletePods(ctx)
}

// bindOnly binds pod after pod to node after node.
func (b *bench) bindOnly() contender {
	return contender{name: "bind-only", start: func(ctx context.Context) (func() (time.Duration, error), error) {
		done := make(chan error, 1)
		go func() {
			done <- b.each(ctx, b.options.pods, func(ctx context.Context, i int) error {
				pod := podOf(b.workload, i)
				return b.client.CoreV1().Pods(metav1.NamespaceDefault).Bind(ctx, &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: pod.Name},
					Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName(i % b.nodes)},
				}, metav1.CreateOptions{})
			})
		}()
		return func() (time.Duration, error) { return 0, <-done }, nil
	}}
}

// kubeScheduler is upstream, with its default profile under our scheduler name.
func (b *bench) kubeScheduler() contender {
	return contender{name: "kube-scheduler", start: func(context.Context) (func() (time.Duration, error), error) {
		file := filepath.Join(b.dir, "kube-scheduler.yaml")
		text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: %d, burst: %d, contentType: application/vnd.kubernetes.protobuf}
profiles: [{schedulerName: %s}]
`, b.controlPlane.Kubeconfig(), b.qps, b.qps, schedulerName)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		return b.startProcess("kube-scheduler", b.binaries.Paths[binaries.Scheduler], "--config="+file, "--secure-port=0")
	}}
}

// liveSched is livesched with a profile of all defaults but for the percentage of nodes to score, 0 being all.
func (b *bench) liveSched(name string, percentage int32) contender {
	return contender{name: name, start: func(ctx context.Context) (func() (time.Duration, error), error) {
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			return nil, err
		}
		c, err := client.New(b.controlPlane.Config(), client.Options{Scheme: scheme})
		if err != nil {
			return nil, err
		}
		profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: schedulerName}}
		_, err = controllerutil.CreateOrUpdate(ctx, c, profile, func() error {
			profile.Spec.PercentageOfNodesToScore = &percentage
			return nil
		})
		if err != nil {
			return nil, err
		}
		return b.startProcess("livesched", b.livesched, "--kubeconfig="+b.controlPlane.Kubeconfig(), "--leader-elect=false",
			"--metrics-bind-address=0", "--health-probe-bind-address=0",
			fmt.Sprintf("--kube-api-qps=%d", b.qps), fmt.Sprintf("--kube-api-burst=%d", b.qps))
	}}
}

func (b *bench) startProcess(name, path string, args ...string) (func() (time.Duration, error), error) {
	p, err := process.Start(process.Config{Name: name, Path: path, Args: args, LogFile: filepath.Join(b.dir, name+".log")})
	if err != nil {
		return nil, err
	}
	return func() (time.Duration, error) {
		cpu := cpuTime(p.PID())
		return cpu, p.Stop(stopGrace)
	}, nil
}

// defaultSampling is the percentage of nodes that kube-scheduler looks at by default (numFeasibleNodesToFind in its
// schedule_one.go).
func defaultSampling(nodes int) int32 { return int32(max(50-nodes/125, 5)) }

// cpuTime reads the CPU time of a running process from /proc, 0 where there is none.
func cpuTime(pid int) time.Duration {
	const ticksPerSecond = 100 // USER_HZ, which is 100 on every Linux that Go runs on
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The fields after the command's name, which is in parentheses and may hold spaces; utime and stime are 14 and 15.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	utime, _ := strconv.Atoi(fields[11])
	stime, _ := strconv.Atoi(fields[12])
	return time.Duration(utime+stime) * time.Second / ticksPerSecond
}
