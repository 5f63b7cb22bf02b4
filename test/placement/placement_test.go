// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement plays the scenes without an API server: with kube-scheduler, which must have
// the outcome that a scene names, and with livesched on both of its paths.
package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/scenes"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	schedmetrics.Register()
	leaks.Main(m)
}

func TestAPodsPlace(t *testing.T) {
	for _, table := range scenes.Tables() {
		t.Run(table.Name, func(t *testing.T) {
			for _, scene := range table.Scenes {
				if scene.Played != scenes.AtAPIOnly {
					t.Run(scene.Name, func(t *testing.T) { play(t, scene) })
				}
			}
		})
	}
}

// play makes kube-scheduler and livesched decide about the pod of a scene.
func play(t *testing.T, scene scenes.Scene) {
	t.Parallel()
	cluster, err := scene.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	asCreated(cluster)
	configuration := configurationOf(t, cluster.Pod.Spec.SchedulerName)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	defer cancel()
	t.Run("kube-scheduler", func(t *testing.T) {
		k, err := sidebyside.NewKubeScheduler(ctx, stored(t, cluster), configuration, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		for _, node := range cluster.Nodes {
			k.Scheduler.Cache.AddNode(logr.Discard(), node)
		}
		for _, pod := range cluster.Pods {
			if err := k.Scheduler.Cache.AddPod(logr.Discard(), pod); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, scene, cluster, k.Decide(cluster.Pod))
	})
	for _, path := range []sidebyside.Path{sidebyside.FastPath, sidebyside.ScalarPath} {
		t.Run("livesched, "+string(path), func(t *testing.T) {
			l, err := sidebyside.NewLivesched(ctx, stored(t, cluster), configuration, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for _, node := range cluster.Nodes {
				l.Cache.AddNode(logr.Discard(), node)
			}
			for _, pod := range cluster.Pods {
				if err := l.Cache.AddPod(logr.Discard(), pod); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, scene, cluster, l.Decide(cluster.Pod))
		})
	}
}

// asCreated completes the pods like the API server does at their creation: with defaults, UIDs, and
// a priority.
func asCreated(c *scenes.Cluster) {
	for _, pod := range append(slices.Clone(c.Pods), c.Pod) {
		corev1defaults.SetObjectDefaults_Pod(pod)
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
		pod.Spec.Priority = ptr.To[int32](0)
		pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
	}
}

// stored returns the objects of a scene as informers hold them.
func stored(t *testing.T, c *scenes.Cluster) sidebyside.Objects {
	t.Helper()
	objects := sidebyside.NewObjects()
	err := objects.Put(scenes.Service(), c.Pod)
	for _, namespace := range scenes.Namespaces() {
		err = errors.Join(err, objects.Put(namespace))
	}
	for _, node := range c.Nodes {
		err = errors.Join(err, objects.Put(node))
	}
	for _, pod := range c.Pods {
		err = errors.Join(err, objects.Put(pod))
	}
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// configurationOf reads one of the profiles of scenes.
func configurationOf(t *testing.T, name string) *sidebyside.Configuration {
	t.Helper()
	c := &sidebyside.Configuration{Profile: configv1.KubeSchedulerProfile{}, Parallelism: 1}
	if err := yaml.UnmarshalStrict([]byte(scenes.Profiles[name]), &c.Profile); err != nil {
		t.Fatal(err)
	}
	c.Profile.SchedulerName = &name
	return c
}

// expect compares a decision with the outcome of a scene.
func expect(t *testing.T, scene scenes.Scene, cluster *scenes.Cluster, got sidebyside.Decision) {
	t.Helper()
	switch want := scene.Outcome; {
	case len(want.Nodes) == 0:
		reasons := fmt.Sprintf("0/%d nodes are available: %s. ", len(cluster.Nodes), want.Reasons)
		if got.Err == nil || !strings.HasPrefix(got.Err.Error(), reasons) {
			t.Errorf("node %q, error %v, want the error %q", got.Host, got.Err, reasons)
		}
	case got.Err != nil || !slices.Contains(want.Nodes, got.Host):
		t.Errorf("node %q, error %v, want one of the nodes %v", got.Host, got.Err, want.Nodes)
	}
}
