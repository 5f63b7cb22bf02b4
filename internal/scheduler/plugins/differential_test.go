// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/plugins"
)

// example is a small cluster, a pod, and the results of kube-scheduler 1.22.17's plugins for them,
// recorded there.
type example struct {
	Nodes       []*corev1.Node
	Pods        []*corev1.Pod
	Services    []*corev1.Service
	ReplicaSets []*appsv1.ReplicaSet
	Pod         *corev1.Pod
	Answers     []struct {
		Plugin, Args string
		Fits         []string
		Scores       map[string]int64
	}
}

// world is the part of an example that the plugins read.
type world struct {
	fwk.Handle // they use nothing else of it than the fields below
	snapshot   *schedcache.Snapshot
	informers  informers.SharedInformerFactory
	infos      []fwk.NodeInfo
}

func (w *world) SnapshotSharedLister() fwk.SharedLister                 { return w.snapshot }
func (w *world) SharedInformerFactory() informers.SharedInformerFactory { return w.informers }
func (w *world) SharedDRAManager() fwk.SharedDRAManager                 { return noDevices{} }

// noDevices is a cluster without device classes.
type noDevices struct{ fwk.SharedDRAManager }

func (n noDevices) DeviceClassResolver() fwk.DeviceClassResolver             { return n }
func (noDevices) GetDeviceClass(corev1.ResourceName) *resourcev1.DeviceClass { return nil }

func newWorld(t *testing.T, e *example) *world {
	t.Helper()
	w := &world{snapshot: schedcache.NewSnapshot(e.Pods, e.Nodes),
		informers: informers.NewSharedInformerFactory(nil, 0)}
	for _, service := range e.Services {
		must(t, w.informers.Core().V1().Services().Informer().GetIndexer().Add(service))
	}
	for _, set := range e.ReplicaSets {
		must(t, w.informers.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(set))
	}
	for _, node := range e.Nodes {
		info, err := w.snapshot.NodeInfos().Get(node.Name)
		must(t, err)
		w.infos = append(w.infos, info)
	}
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fits returns the nodes that the plugin does not reject: all if it does not filter.
func (w *world) fits(t *testing.T, plugin fwk.Plugin, state fwk.CycleState, pod *corev1.Pod) []string {
	t.Helper()
	skipped := false
	if pl, ok := plugin.(fwk.PreFilterPlugin); ok {
		_, status := pl.PreFilter(t.Context(), state, pod, w.infos)
		skipped = status.IsSkip()
		if !status.IsSuccess() && !skipped {
			t.Fatal(status)
		}
	}
	names := []string{}
	for _, info := range w.infos {
		pl, ok := plugin.(fwk.FilterPlugin)
		if !ok || skipped || pl.Filter(t.Context(), state, pod, info).IsSuccess() {
			names = append(names, info.Node().Name)
		}
	}
	return names
}

// scores returns the plugin's scores, nil if it is skipped.
func (w *world) scores(t *testing.T, plugin fwk.Plugin, state fwk.CycleState, pod *corev1.Pod) map[string]int64 {
	t.Helper()
	if pl, ok := plugin.(fwk.PreScorePlugin); ok {
		if status := pl.PreScore(t.Context(), state, pod, w.infos); status.IsSkip() {
			return nil
		} else if !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	pl := plugin.(fwk.ScorePlugin)
	var list fwk.NodeScoreList
	for _, info := range w.infos {
		score, status := pl.Score(t.Context(), state, pod, info)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: score})
	}
	if extensions := pl.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(t.Context(), state, pod, list); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	scores := map[string]int64{}
	for _, score := range list {
		scores[score.Name] = score.Score
	}
	return scores
}

// allEqual reports whether all nodes have one score, which decides nothing.
func allEqual(scores map[string]int64) bool {
	values := slices.Collect(maps.Values(scores))
	return slices.Max(values) == slices.Min(values)
}

// All plugins of one example share a cycle state, so that each must keep its own state separate.
func TestRemovedPluginsMatchKubeScheduler(t *testing.T) {
	registry, err := plugins.NewRegistry(nil)
	must(t, err)
	file, err := os.Open(filepath.Join("testdata", "answers-1.22.jsonl"))
	must(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	telling := map[string]int{} // results that distinguish nodes, by plugin
	for n := 1; lines.Scan(); n++ {
		t.Run(fmt.Sprintf("line %d", n), func(t *testing.T) {
			var e example
			must(t, json.Unmarshal(lines.Bytes(), &e))
			w, state := newWorld(t, &e), schedframework.NewCycleState()
			type made struct {
				plugin fwk.Plugin
				scores map[string]int64
			}
			var all []made
			for _, answer := range e.Answers {
				var args runtime.Object
				if answer.Args != "" {
					args = &runtime.Unknown{Raw: []byte(answer.Args), ContentType: runtime.ContentTypeJSON}
				}
				plugin, err := registry[answer.Plugin](t.Context(), args, w)
				must(t, err)
				if diff := cmp.Diff(answer.Fits, w.fits(t, plugin, state, e.Pod)); diff != "" {
					t.Errorf("%s: nodes that fit (-1.22 +livesched)\n%s", answer.Plugin, diff)
				}
				scores := w.scores(t, plugin, state, e.Pod)
				all = append(all, made{plugin, scores})
				if !allEqual(answer.Scores) {
					telling[answer.Plugin]++
				} else if scores == nil {
					continue // 1.22 gave all nodes the same score
				}
				if diff := cmp.Diff(answer.Scores, scores); diff != "" {
					t.Errorf("%s: scores (-1.22 +livesched)\n%s", answer.Plugin, diff)
				}
			}
			for _, m := range all { // again, now that all have written to the state
				if m.scores == nil {
					continue
				}
				for _, info := range w.infos {
					score, status := m.plugin.(fwk.ScorePlugin).Score(t.Context(), state, e.Pod, info)
					if !status.IsSuccess() || m.plugin.(fwk.ScorePlugin).ScoreExtensions() == nil &&
						score != m.scores[info.Node().Name] {
						t.Errorf("%s scores %d (%v) after the others, %d before", m.plugin.Name(), score, status,
							m.scores[info.Node().Name])
					}
				}
			}
		})
	}
	must(t, lines.Err())
	for _, name := range []string{"SelectorSpread", "NodeLabel", "ServiceAffinity", "NodeResourcesLeastAllocated",
		"NodeResourcesMostAllocated", "RequestedToCapacityRatio"} {
		if telling[name] < 15 {
			t.Errorf("only %d answers of %s tell nodes apart: the test shows little", telling[name], name)
		}
	}
}
