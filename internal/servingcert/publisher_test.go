// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// startPublisher starts the Publisher of a host, and has it end before the bubble does.
func startPublisher(t *testing.T, client *fake.Clientset, host string,
	get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) {
	t.Helper()
	p := &Publisher{Client: client, Namespace: "ns", Host: host, GetCertificate: get, Clock: clock.RealClock{}}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	ended := make(chan error)
	go func() { ended <- p.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

func emptyConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: PublishedConfigMap}}
}

func publishedData(t *testing.T, client *fake.Clientset) map[string]string {
	t.Helper()
	m, err := client.CoreV1().ConfigMaps("ns").Get(t.Context(), PublishedConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// expectPublished checks that a client accepts the certificate that a host serves, and would not
// accept that of another.
func expectPublished(t *testing.T, client *fake.Clientset, host string,
	serves func(*tls.ClientHelloInfo) (*tls.Certificate, error)) {
	t.Helper()
	leaf, err := Published(publishedData(t, client), host)
	if err != nil {
		t.Fatalf("%s: %v", host, err)
	}
	served, err := serves(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	options := x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: time.Now()}
	if _, err := served.Leaf.Verify(options); err != nil {
		t.Errorf("%s: what it publishes does not verify what it serves: %v", host, err)
	}
	other, err := (&SelfSigned{Names: []string{host}, Clock: clock.RealClock{}}).GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Leaf.Verify(options); err == nil {
		t.Errorf("%s: another certificate with its name is accepted", host)
	}
}

func updates(client *fake.Clientset) (count int) {
	for _, action := range client.Actions() {
		if action.GetVerb() == "update" {
			count++
		}
	}
	return count
}

func TestReplicasPublishWhatTheyServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(emptyConfigMap())
		var one atomic.Pointer[SelfSigned] // what replica one serves
		one.Store(&SelfSigned{Names: []string{"one"}, Clock: clock.RealClock{}})
		serves := map[string]func(*tls.ClientHelloInfo) (*tls.Certificate, error){
			"one": func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return one.Load().GetCertificate(hello)
			},
			"two": (&SelfSigned{Names: []string{"two"}, Clock: clock.RealClock{}}).GetCertificate,
		}
		for host, get := range serves {
			startPublisher(t, client, host, get)
			synctest.Wait() // the fake API server knows no conflicts
		}
		for host, get := range serves {
			expectPublished(t, client, host, get)
		}
		one.Store(&SelfSigned{Names: []string{"one"}, Clock: clock.RealClock{}})
		pass(time.Minute)
		for host, get := range serves {
			expectPublished(t, client, host, get)
		}
		pass(checkEvery)
		if got := updates(client); got != 3 {
			t.Errorf("%d updates for three certificates", got)
		}
	})
}

func TestAReplicaRestoresWhatOthersRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(emptyConfigMap())
		get := (&SelfSigned{Names: []string{"one"}, Clock: clock.RealClock{}}).GetCertificate
		startPublisher(t, client, "one", get)
		pass(time.Minute)
		if _, err := client.CoreV1().ConfigMaps("ns").Update(t.Context(), emptyConfigMap(),
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(checkEvery + lookEvery)
		expectPublished(t, client, "one", get)
	})
}

func TestPublishingIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var conflicts atomic.Int32
		client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if conflicts.Add(1) > 2 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), PublishedConfigMap,
				errors.New("another replica was first"))
		})
		get := (&SelfSigned{Names: []string{"one"}, Clock: clock.RealClock{}}).GetCertificate
		var ready atomic.Bool
		startPublisher(t, client, "one", func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if !ready.Load() {
				return nil, errNoCertificate
			}
			return get(hello)
		})
		pass(time.Minute)
		if len(client.Actions()) != 0 {
			t.Errorf("without a certificate: %v", client.Actions())
		}
		ready.Store(true)
		pass(time.Minute)
		if len(client.Actions()) != 1 {
			t.Errorf("without the ConfigMap, it asks once in ten minutes: %v", client.Actions())
		}
		if _, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), emptyConfigMap(),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(checkEvery)
		expectPublished(t, client, "one", get)
	})
}

func TestStaleCertificatesAreRemoved(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	certificate := func(name string) *x509.Certificate {
		c, err := (&SelfSigned{Names: []string{name}, Clock: clock.RealClock{}}).GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf
	}
	a, b := certificate("a"), certificate("b")
	data, changed := publish(map[string]string{"broken": "no certificate"}, "a", a, now)
	if !changed || len(data) != 1 {
		t.Errorf("what is no certificate stays: %v", data)
	}
	data, _ = publish(data, "b", b, now.Add(staleAfter-time.Second))
	if len(data) != 2 {
		t.Errorf("the certificate of a replica that may live is gone: %v", data)
	}
	if _, changed := publish(data, "b", b, now.Add(staleAfter-time.Second)); changed {
		t.Error("nothing to do, and the ConfigMap is written")
	}
	data, changed = publish(data, "b", b, now.Add(staleAfter))
	if _, err := Published(data, "a"); !changed || !errors.Is(err, errNotPublished) {
		t.Errorf("a stale certificate stays: %v, %v", changed, err)
	}

	data = map[string]string{}
	for i := range maxPublished + 5 {
		data, _ = publish(data, fmt.Sprint("host-", i), a, now.Add(time.Duration(i)*time.Second))
	}
	if _, err := Published(data, "host-4"); len(data) != maxPublished || err == nil {
		t.Errorf("%d certificates are published, the oldest of them: %v", len(data), err)
	}
}
