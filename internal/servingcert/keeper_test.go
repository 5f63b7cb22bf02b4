// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const secretName, configurationName = "cert", "livesched"

// startKeeper starts a Keeper and has it end, with all its goroutines, before the bubble does.
func startKeeper(t *testing.T, client *fake.Clientset) *Keeper {
	t.Helper()
	return startKeeperFor(t, client, WebhookConfiguration{Client: client, Name: configurationName})
}

func startKeeperFor(t *testing.T, client *fake.Clientset, callers Callers) *Keeper {
	t.Helper()
	k := &Keeper{
		Client: client, Secret: types.NamespacedName{Namespace: "ns", Name: secretName},
		Callers:   callers,
		Manifests: "config/webhook",
		DNSNames:  names, Clock: clock.RealClock{}, // that of the bubble
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	ended := make(chan error)
	go func() { ended <- k.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	return k
}

// pass lets time pass, that of the bubble.
func pass(d time.Duration) { <-time.After(d) }

func objects() []runtime.Object {
	return []runtime.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: secretName}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: configurationName},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "one.livesched.io"},
				{Name: "two.livesched.io"}},
		},
	}
}

func bundles(t *testing.T, client *fake.Clientset) (all []string) {
	t.Helper()
	c, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Get(t.Context(), configurationName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Webhooks {
		all = append(all, string(w.ClientConfig.CABundle))
	}
	return all
}

func secretData(t *testing.T, client *fake.Clientset) map[string][]byte {
	t.Helper()
	s, err := client.CoreV1().Secrets("ns").Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Data
}

// expectGood checks that what is served is in the Secret, and is trusted by every webhook.
func expectGood(t *testing.T, client *fake.Clientset, k *Keeper) {
	t.Helper()
	data := secretData(t, client)
	for _, bundle := range bundles(t, client) {
		if bundle != string(data[SecretCA]) {
			t.Errorf("a webhook trusts %q", bundle)
		}
	}
	verify(t, data[SecretCA], data, time.Now())
	served, err := k.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if held := goodCertificate(data, authorities(t, data), names, time.Now()); held == nil || !held.Equal(served.Leaf) {
		t.Error("another certificate is served than the Secret holds")
	}
}

func TestACertificateStaysValidForYearsWithoutLeakingGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(objects()...)
		k := startKeeper(t, client)
		if _, err := (&Keeper{}).GetCertificate(nil); !errors.Is(err, errNoCertificate) {
			t.Errorf("before there is one: %v", err)
		}
		seen := map[string]bool{}
		for range 40 {
			pass(30 * day)
			synctest.Wait()
			expectGood(t, client, k)
			served, _ := k.GetCertificate(nil)
			seen[served.Leaf.SerialNumber.String()] = true
			if left := time.Until(served.Leaf.NotAfter); left < 100*day {
				t.Errorf("a certificate is served that is good for %v more", left)
			}
		}
		if len(seen) != 5 {
			t.Errorf("%d certificates in 40 months, each for 8", len(seen))
		}
	})
}

func TestDeletedContentIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(objects()...)
		k := startKeeper(t, client)
		synctest.Wait()
		pass(time.Minute)
		expectGood(t, client, k)
		for range 3 {
			c, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
				Get(t.Context(), configurationName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c.Webhooks[1].ClientConfig.CABundle = []byte("wiped")
			if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
				Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			expectGood(t, client, k)

			if err := client.CoreV1().Secrets("ns").
				Delete(t.Context(), secretName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if _, err := k.GetCertificate(nil); err != nil {
				t.Errorf("without its Secret it serves none: %v", err)
			}
			secret, _ := objects()[0].(*corev1.Secret)
			if _, err := client.CoreV1().Secrets("ns").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			expectGood(t, client, k)
		}
	})
}

func TestAFailedWriteIsRetriedAndNothingIsServedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(objects()...)
		var allowed atomic.Bool
		client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !allowed.Load(), nil, errors.New("not now")
		})
		k := startKeeper(t, client)
		pass(10 * time.Minute)
		synctest.Wait()
		if _, err := k.GetCertificate(nil); !errors.Is(err, errNoCertificate) {
			t.Errorf("a certificate is served that no other replica has: %v", err)
		}
		writes := 0
		for _, action := range client.Actions() {
			if action.Matches("update", "secrets") {
				writes++
			}
		}
		if writes < 10 || writes > 30 {
			t.Errorf("%d attempts in 10 minutes", writes)
		}
		allowed.Store(true)
		pass(time.Minute)
		expectGood(t, client, k)
	})
}
