// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/testcluster"
)

// actorTimeout bounds the actors' own calls, which may hang beside a crew.
const actorTimeout = 15 * time.Second

// defaultCrewLength suits `make test`. In that time there are no faults that take longer.
const defaultCrewLength = 4 * time.Second

func TestPodsAreBoundOrExplainedWhateverHappensToTheProcesses(t *testing.T) {
	s, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	if s.isDefault {
		s.length = defaultCrewLength
	}
	t.Logf("churning for %v; to churn like this again: make soak SOAK=%v SEED=%d", s.length, s.length, s.seed)
	_, logger := listen(t, "")
	w := newWorld(t, s)
	w.script, w.menu = newScript(w.counts), plainSpecs
	w.startCrew(t, s, logger)

	for round := 0; time.Duration(round)*s.round < s.length; round++ {
		w.churnCrew(t, s, round, min(s.round, s.length-time.Duration(round)*s.round))
	}
	stop := w.runMeanwhile(t, 600_000, crewCare)
	w.deleteAll(t)
	stop()
	t.Logf("counts: %s", w.counts)
}

// startCrew makes the replicas run as processes. One of them is of another version, if one is
// named.
func (w *world) startCrew(t *testing.T, s settings, logger klog.Logger) {
	t.Helper()
	config := *w.cluster.Config
	w.startHistory(t, true)
	config.Timeout = actorTimeout
	scheme, err := app.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	if w.client, err = client.New(&config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if w.clientset, err = kubernetes.NewForConfig(&config); err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(w.cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.crew = &crew{counts: w.counts, programs: [replicas]string{self, self}, server: server.Host,
		kubeconfig: w.cluster.Kubeconfig(), dir: t.TempDir()}
	if s.log != "" {
		w.crew.dir = s.log + ".d"
		if err := os.MkdirAll(w.crew.dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s.previous != "" {
		if w.crew.programs[1], err = filepath.Abs(s.previous); err != nil {
			t.Fatal(err)
		}
	}
	for slot, program := range w.crew.programs {
		help := exec.Command(program, "--help")
		help.Env = append(os.Environ(), asCommand+"=1")
		if text, err := help.Output(); err != nil {
			t.Fatal(err)
		} else if bytes.Contains(text, []byte("--secure-port")) {
			w.crew.flags[slot] = append(w.crew.flags[slot], "--secure-port=0")
		}
	}
	w.startObserver(t, logger)
	t.Cleanup(func() {
		w.crew.stop()
		for _, problem := range w.crew.verdict() {
			t.Error(problem)
		}
	})
}

// startObserver starts the observer, and a lease that keeps it from leading.
func (w *world) startObserver(t *testing.T, logger klog.Logger) {
	t.Helper()
	const name = "churn-observer"
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("the test"), LeaseDurationSeconds: ptr.To[int32](100 * 24 * 3600), AcquireTime: &now,
			RenewTime: &now,
		},
	}
	if err := w.client.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	o := testcluster.Options()
	o.OutOfTree = w.script.registry()
	o.LeaderElect, o.LeaderElectionNamespace, o.LeaderElectionName = true, lease.Namespace, name
	run, err := testcluster.RunFor(context.WithoutCancel(t.Context()), logger, w.cluster.Config, o)
	if err != nil {
		t.Fatal(err)
	}
	w.observer = &replica{Running: run}
	t.Cleanup(func() {
		// It may take longer while the API server does not respond. A process would end then.
		if err := run.Stop(stopTimeout); err != nil && !strings.Contains(err.Error(), "within grace period") {
			t.Error(err)
		}
	})
}

// churnCrew runs the actors for a time, and then waits for the cluster to settle.
func (w *world) churnCrew(t *testing.T, s settings, round int, length time.Duration) {
	t.Helper()
	t.Logf("%s round %d", time.Now().Format(time.TimeOnly), round)
	stop := w.runMeanwhile(t, 500_000+round, crewCare, kubelet, volumeController, deviceController)
	defer stop()
	gomega.NewWithT(t).Eventually(func() error { return w.tryFurnish(t.Context(), round) }).WithTimeout(settleTimeout).
		Should(gomega.Succeed())
	acts := slices.Concat(podActs, nodeActs, volumeActs, profileActs, memberActs)
	switch {
	case s.isLong():
		acts = slices.Concat(acts, terminateActs, controlPlaneActs(20*time.Second, longOutage))
	case !s.isDefault:
		acts = slices.Concat(acts, terminateActs, controlPlaneActs(6*time.Second, shortOutage))
	}
	acting, rest := context.WithTimeout(t.Context(), length)
	w.run(acting, round, acts)
	rest()
	probes := probesPerRound
	if s.isDefault {
		probes = 1
	}
	w.settleAndProbe(t, round, probes)
	stop()
}
