// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package namedwatch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/livesched/livesched/test/leaks"
)

// configMaps is a client that has one ConfigMap, and sends the events that a test makes.
type configMaps struct {
	events *watch.RaceFreeFakeWatcher

	mu        sync.Mutex
	selectors []string // the field selectors of all requests
}

func (c *configMaps) List(_ context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	c.note(o)
	return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []corev1.ConfigMap{*configMap("1", "before")}}, nil
}

func (c *configMaps) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	c.note(o)
	return c.events, nil
}

func (c *configMaps) note(o metav1.ListOptions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.selectors = append(c.selectors, o.FieldSelector)
}

func (c *configMaps) noted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.selectors
}

func configMap(version, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "mine", ResourceVersion: version},
		Data:       map[string]string{"value": value},
	}
}

func TestInformer(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	before := goleak.IgnoreCurrent()

	objects := &configMaps{events: watch.NewRaceFreeFake()}
	var changes atomic.Int32
	informer, err := NewInformer(fake.NewClientset(), objects, "mine", &corev1.ConfigMap{}, func() { changes.Add(1) })
	g.Expect(err).NotTo(gomega.HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()

	// known returns the value that the informer has, "" if it has no object.
	known := func() string {
		object, exists, err := informer.GetStore().GetByKey("here/mine")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		if !exists {
			return ""
		}
		return object.(*corev1.ConfigMap).Data["value"]
	}
	// expect waits for the value, and for one more call of changed.
	calls := int32(0)
	expect := func(what, value string) {
		t.Helper()
		calls++
		g.Eventually(changes.Load).Should(gomega.Equal(calls), what)
		g.Expect(known()).To(gomega.Equal(value), what)
	}

	expect("found", "before")
	objects.events.Modify(configMap("2", "after"))
	expect("changed", "after")
	objects.events.Delete(configMap("3", "after"))
	expect("deleted", "")
	objects.events.Add(configMap("4", "again"))
	expect("created again", "again")
	g.Expect(informer.HasSynced()).To(gomega.BeTrue())
	g.Expect(objects.noted()).To(gomega.HaveEach("metadata.name=mine"))

	cancel()
	g.Eventually(ended).Should(gomega.BeClosed())
	g.Expect(objects.events.IsStopped()).To(gomega.BeTrue())
	g.Expect(changes.Load()).To(gomega.Equal(calls))
	g.Expect(leaks.Find(before)).To(gomega.Succeed())
}
