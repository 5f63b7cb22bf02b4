// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/hack/bench/decision"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

func small() *options {
	return &options{
		nodes: []int{20, 40}, podsPerNode: 3, perSeries: 10, bound: workload.Mixed,
		kinds:      []string{workload.Basic, workload.Spread},
		contenders: []string{decidebench.Livesched, decidebench.KubeScheduler}, trim: true, decisions: 3, firsts: 1,
		changes: 30,
	}
}

func TestClustersOfEverySizeAreMeasured(t *testing.T) {
	o := small()
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	r, err := report.New("scale", "", map[string]string{"pods-per-node": "3"})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, contender := range o.contenders {
		of := r.Rows.Where("contender", contender)
		for _, nodes := range []string{"20", "40"} {
			whole := of.Where("nodes", nodes).Where("kind", "")
			if len(whole) != 1 || whole[0].Labels["pods"] != map[string]string{"20": "60", "40": "120"}[nodes] {
				t.Fatalf("%s, %s nodes: %v", contender, nodes, whole)
			}
			for _, name := range []string{
				nodeBytes, objectBytes, heapMiB, peakMiB, decodeSeconds, cacheSeconds, snapshotSeconds, firstMillis,
				heartbeat, change, afterChanges, collection,
			} {
				if !(whole.Median(name) > 0) {
					t.Errorf("%s, %s nodes: %s is %v", contender, nodes, name, whole.Median(name))
				}
			}
			for _, kind := range o.kinds {
				if !(of.Where("nodes", nodes).Where("kind", kind).Median(decision.CPU) >= 0) {
					t.Errorf("%s, %s nodes: nothing of %s pods", contender, nodes, kind)
				}
			}
		}
	}
	tables := Tables(r)
	if len(tables) != 2 || len(tables[0].Header) != 5 || tables[0].Header[1] != "livesched: 20 nodes, 60 pods" {
		t.Errorf("tables %v", tables)
	}
	for _, table := range tables {
		for _, row := range table.Rows {
			if slices.Contains(row, "") {
				t.Errorf("%s has an empty cell in %q", table.Title, row)
			}
		}
	}
	if charts := Charts(r); len(charts) != 2 || len(charts[0].Series[0].X) != 2 {
		t.Errorf("charts %v", charts)
	}
}

func TestPodsShareWhatLiveschedsInformersHaveThemShare(t *testing.T) {
	for contender, shared := range map[string]bool{decidebench.Livesched: true, decidebench.KubeScheduler: false,
		decidebench.KubeSchedulerAll: false} {
		m := &measurement{options: small(), nodes: 4, contender: contender}
		objects, transform := m.informersOf()
		if err := errors.Join(m.loadNodes(objects, transform), m.loadPods(objects, transform)); err != nil {
			t.Fatal(err)
		}
		if nodes, pods := len(objects.nodes.ListKeys()), len(objects.pods.ListKeys()); nodes != 4 || pods != 12 {
			t.Fatalf("%d nodes and %d pods", nodes, pods)
		}
		places := map[*byte]bool{}
		for _, obj := range objects.pods.List() {
			pod := obj.(*corev1.Pod)
			if _, ok := workload.ZoneIndex(pod.Spec.NodeName); !ok || pod.Status.Phase != corev1.PodRunning {
				t.Errorf("pod %s is %s on %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName)
			}
			places[unsafe.StringData(pod.Spec.Containers[0].Image)] = true
		}
		if one := len(places) == 1; one != shared {
			t.Errorf("%s: the name of one image is at %d places", contender, len(places))
		}
	}
}

func TestAFailureNamesTheCluster(t *testing.T) {
	o := small()
	o.nodes, o.kinds = []int{1}, []string{workload.Anti} // one node takes one pod of each series
	r, err := report.New("scale", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.run(t.Context(), r); err == nil || !strings.Contains(err.Error(), "livesched, 1 nodes: anti pods") {
		t.Errorf("the error is %v", err)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--kinds", "huge"}, {"--bound", "huge"}, {"--nodes", "0"},
		{"--pods-per-node", "0"}, {"--contenders", "nobody"}, {"--changes", "0"}} {
		cmd := Command()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, "--out", ""))
		if err := cmd.Execute(); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
