// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

var someSecret = types.NamespacedName{Namespace: "n", Name: "tls"}

func secretOf(ca string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: someSecret.Namespace, Name: someSecret.Name,
			Labels: map[string]string{v1alpha1.LabelSchedulingPolicy: "q", "app": "x"},
		},
		Data: map[string][]byte{"ca.crt": []byte(ca), "password": []byte("sesame")},
	}
}

// watching returns the watches of a fake API server, and how often something changed.
func watching(t *testing.T, client *fake.Clientset) (*secretWatches, *atomic.Int32) {
	t.Helper()
	var changes atomic.Int32
	w := &secretWatches{client: client, changed: func() { changes.Add(1) }}
	return w, &changes
}

func TestSecretIsCurrentAndReadOnlyWhileReferenced(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	client := fake.NewClientset(secretOf("one"))
	w, changes := watching(t, client)
	read := func() map[types.NamespacedName]resolve.Secret {
		return w.read(t.Context(), sets.New(someSecret, types.NamespacedName{Namespace: "n", Name: "absent"}))
	}
	want := func(ca string) map[types.NamespacedName]resolve.Secret {
		return map[types.NamespacedName]resolve.Secret{someSecret: resolve.NewSecret(secretOf(ca))}
	}
	if diff := cmp.Diff(want("one"), read()); diff != "" {
		t.Fatalf("the first look (-want +got):\n%s", diff)
	}
	kept, _, err := w.watches[someSecret].informer.GetStore().GetByKey(someSecret.String())
	if err != nil || len(kept.(*corev1.Secret).Data) != 1 || len(kept.(*corev1.Secret).Labels) != 1 {
		t.Errorf("kept is %v, %v", kept, err)
	}

	// The watch of the fake API server does not report changes between the list and the watch.
	watches := func() (n int) {
		for _, action := range client.Actions() {
			if action.GetVerb() == "watch" {
				n++
			}
		}
		return n
	}
	g.Eventually(watches).Should(gomega.Equal(2))

	// From here on Secrets are read as the reconciler does: only after a change.
	found, seen := read(), int32(0)
	readWhenChanged := func() map[types.NamespacedName]resolve.Secret {
		if now := changes.Load(); now != seen {
			found, seen = read(), now
		}
		return found
	}
	if _, err := client.CoreV1().Secrets("n").Update(t.Context(), secretOf("two"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	g.Eventually(readWhenChanged).Should(gomega.BeComparableTo(want("two")))
	if err := client.CoreV1().Secrets("n").Delete(t.Context(), someSecret.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	g.Eventually(readWhenChanged).Should(gomega.BeEmpty())

	watched := w.watches[someSecret]
	if found := w.read(t.Context(), nil); len(found) != 0 || len(w.watches) != 0 {
		t.Errorf("found %v, watched are %v", found, w.watches)
	}
	g.Eventually(watched.informer.IsStopped).Should(gomega.BeTrue())
}

func TestEverySecretIsRequestedByName(t *testing.T) {
	client := fake.NewClientset()
	w, _ := watching(t, client)
	w.read(t.Context(), sets.New(someSecret))
	for _, action := range client.Actions() {
		var restrictions clienttesting.ListRestrictions
		switch action := action.(type) {
		case clienttesting.ListAction:
			restrictions = action.GetListRestrictions()
		case clienttesting.WatchAction:
			restrictions.Fields = action.GetWatchRestrictions().Fields
		}
		if action.GetNamespace() != "n" || restrictions.Fields.String() != "metadata.name=tls" {
			t.Errorf("asked for %s of %s in namespace %q, with fields %s", action.GetVerb(),
				action.GetResource().Resource, action.GetNamespace(), restrictions.Fields)
		}
	}
	if len(client.Actions()) == 0 {
		t.Error("nothing was asked for")
	}
}

func TestForbiddenSecretIsUnreadableUntilItIsPermitted(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	client := fake.NewClientset(secretOf("one"))
	var allowed atomic.Bool
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if allowed.Load() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), someSecret.Name, errors.New("not for you"))
	})
	w, changes := watching(t, client)
	read := func() resolve.Secret { return w.read(t.Context(), sets.New(someSecret))[someSecret] }
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), someSecret.Name, errors.New("not for you"))
	g.Expect(read()).To(gomega.Equal(resolve.UnreadableSecret(fmt.Errorf("failed to list *v1.Secret: %w", forbidden))))
	g.Expect(changes.Load()).To(gomega.BeZero())
	allowed.Store(true)
	g.Eventually(changes.Load).Should(gomega.BeNumerically(">", 0))
	g.Eventually(read).Should(gomega.Equal(resolve.NewSecret(secretOf("one"))))
}

func TestReadsOfSecretsAreBounded(t *testing.T) {
	client := fake.NewClientset()
	hanging := make(chan struct{})
	defer close(hanging)
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-hanging
		return true, nil, errors.New("too late")
	})
	w, _ := watching(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the same as after the deadline
	if got := w.read(ctx, sets.New(someSecret))[someSecret]; !got.Equal(resolve.UnansweredSecret(errNoAnswer)) {
		t.Errorf("got %v", got)
	}
}

func TestASecretThatNoPolicyMayUseIsNotKept(t *testing.T) {
	secret := secretOf("one")
	delete(secret.Labels, v1alpha1.LabelSchedulingPolicy)
	w, _ := watching(t, fake.NewClientset(secret))
	if got := w.read(t.Context(), sets.New(someSecret)); !got[someSecret].Equal(resolve.Secret{}) {
		t.Errorf("got %v", got)
	}
	kept, exists, err := w.watches[someSecret].informer.GetStore().GetByKey(someSecret.String())
	if err != nil || !exists || len(kept.(*corev1.Secret).Data) != 0 {
		t.Errorf("kept is %v, %v, %v", kept, exists, err)
	}
}
