// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/testcluster"
)

// cluster is what the API server has, for the actors and for the invariants. Its clients reach the
// API server without a network.
type cluster struct {
	world   *World
	kube    kubernetes.Interface
	objects client.Client
	// revision is that of etcd up to which pods and nodes are known, by key in etcd.
	revision int64
	// oldest is the first revision that etcd still has.
	oldest int64
	pods   map[string]*corev1.Pod
	nodes  map[string]*corev1.Node
}

func newCluster(w *World, config *rest.Config) (*cluster, error) {
	all, err := app.NewScheme()
	if err != nil {
		return nil, err
	}
	c := &cluster{world: w, revision: w.etcd.Revision(), oldest: w.etcd.Revision(),
		pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.objects, err = client.New(config, client.Options{Scheme: all}); err != nil {
		return nil, err
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, ownNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.objects.Create(w.ctx, namespace); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// definitions are livesched's custom resources. A process reads the files once, outside of bubbles:
// in these, a system call could make another thread run goroutines.
var definitions = sync.OnceValue(readDefinitions)

func readDefinitions() []*apiextensionsv1.CustomResourceDefinition {
	dir := filepath.Join(testcluster.Root(), "config", "crd", "bases")
	files, err := os.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			panic(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			panic(err)
		}
		crds = append(crds, crd)
	}
	return crds
}

// observe sees what has changed in etcd, and in the processes.
func (w *World) observe() {
	for _, r := range w.replicas {
		r.look()
	}
	c := w.cluster
	for _, change := range w.etcd.Changes(c.revision) {
		c.revision = change.Kv.ModRevision
		switch key := string(change.Kv.Key); {
		case strings.HasPrefix(key, "/registry/pods/"):
			before := c.pods[key]
			after := decode[corev1.Pod](change)
			if after == nil {
				delete(c.pods, key)
			} else {
				c.pods[key] = after
			}
			w.podChanged(before, after)
		case strings.HasPrefix(key, "/registry/minions/"):
			if after := decode[corev1.Node](change); after == nil {
				delete(c.nodes, key)
			} else {
				c.nodes[key] = after
			}
		}
	}
}

// decode returns the object after a change, nil if it was deleted.
func decode[T any, P interface {
	*T
	client.Object
}](change *mvccpb.Event) P {
	if change.Type == mvccpb.Event_DELETE {
		return nil
	}
	object := P(new(T))
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(change.Kv.Value, nil, object); err != nil {
		panic(err)
	}
	return object
}
