// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"math/rand"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

var (
	names = []string{"livesched-webhook.livesched-system.svc", "livesched-webhook.livesched-system.svc.cluster.local"}
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

const day = 24 * time.Hour

func mustRenew(t *testing.T, held map[string][]byte, now time.Time) *renewed {
	t.Helper()
	r, err := renew(held, names, now, DefaultLifetimes)
	if err != nil {
		t.Fatal(err)
	}
	if !r.again.After(now) {
		t.Fatalf("at %v: look again at %v", now, r.again)
	}
	return r
}

// verify connects as an API server that trusts a bundle.
func verify(t *testing.T, bundle []byte, data map[string][]byte, now time.Time) {
	t.Helper()
	pair, err := tls.X509KeyPair(data[SecretCertificate], data[SecretKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("no authority")
	}
	for _, name := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			t.Fatalf("at %v: %v", now, err)
		}
	}
}

func authorities(t *testing.T, data map[string][]byte) []*x509.Certificate {
	t.Helper()
	all, err := cert.ParseCertsPEM(data[SecretCA])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAnEmptySecretIsFilledOnce(t *testing.T) {
	first := mustRenew(t, map[string][]byte{"other": []byte("kept")}, start)
	if !first.changed || string(first.data["other"]) != "kept" {
		t.Errorf("changed %v, %v", first.changed, first.data)
	}
	verify(t, first.data[SecretCA], first.data, start)
	verify(t, first.data[SecretCA], first.data, start.Add(-skew)) // the clock of the API server is behind
	for _, later := range []time.Duration{0, time.Hour, 100 * day, 240 * day} {
		if second := mustRenew(t, first.data, start.Add(later)); second.changed {
			t.Errorf("changed again after %v", later)
		}
	}
	if days := first.again.Sub(start).Hours() / 24; days < 242 || days > 245 {
		t.Errorf("to be looked at again after %v days: two thirds of a year are expected", days)
	}
}

func TestACertificateIsRenewedUnderTheSameAuthority(t *testing.T) {
	first := mustRenew(t, nil, start)
	second := mustRenew(t, first.data, first.again.Add(time.Second))
	if !second.changed || !bytes.Equal(first.data[SecretCA], second.data[SecretCA]) ||
		bytes.Equal(first.data[SecretCertificate], second.data[SecretCertificate]) {
		t.Error("not a new certificate of the same authority")
	}
	verify(t, first.data[SecretCA], second.data, first.again)
}

func TestANewAuthorityIsPublishedBeforeItSigns(t *testing.T) {
	first := mustRenew(t, nil, start)
	due := renewal(authorities(t, first.data)[0], 5).Add(time.Second)
	// A certificate that was renewed just before:
	before := mustRenew(t, first.data, due.Add(-time.Hour))
	announced := mustRenew(t, before.data, due)
	if got := authorities(t, announced.data); len(got) != 2 || got[0].Equal(authorities(t, before.data)[0]) ||
		!got[1].Equal(authorities(t, before.data)[0]) {
		t.Fatalf("%d authorities", len(got))
	}
	if !bytes.Equal(before.data[SecretCertificate], announced.data[SecretCertificate]) {
		t.Error("signed by an authority that no API server knows yet")
	}
	if want := due.Add(DefaultLifetimes.Notice); announced.again.Sub(want).Abs() > time.Second {
		t.Errorf("to be looked at again at %v, want %v", announced.again, want)
	}
	signed := mustRenew(t, announced.data, announced.again)
	if !bytes.Equal(announced.data[SecretCA], signed.data[SecretCA]) {
		t.Error("another authority")
	}
	verify(t, cert0(t, signed.data), signed.data, announced.again)
	gone := mustRenew(t, signed.data, authorities(t, before.data)[0].NotAfter)
	if len(authorities(t, gone.data)) != 1 {
		t.Error("an authority that has expired is still made known")
	}
}

// cert0 has only the present authority.
func cert0(t *testing.T, data map[string][]byte) []byte {
	t.Helper()
	text, err := cert.EncodeCertificates(authorities(t, data)[0])
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAnyContentOfTheSecretIsRepaired(t *testing.T) {
	good, other := mustRenew(t, nil, start).data, mustRenew(t, nil, start).data
	for _, key := range []string{SecretCA, SecretCAKey, SecretCertificate, SecretKey} {
		for what, value := range map[string][]byte{"nothing": nil, "anything": []byte("anything"),
			"that of another": other[key], "a broken block": good[key][:len(good[key])/2]} {
			t.Run(key+" is "+what, func(t *testing.T) {
				held := maps.Clone(good)
				held[key] = value
				r := mustRenew(t, held, start.Add(time.Hour))
				verify(t, r.data[SecretCA], r.data, start.Add(time.Hour))
				if !r.changed {
					t.Error("nothing changed")
				}
				if again := mustRenew(t, r.data, start.Add(time.Hour)); again.changed {
					t.Error("changed again")
				}
			})
		}
	}
}

func TestACertificateForOtherNamesIsReplaced(t *testing.T) {
	first, err := renew(nil, []string{"old.ns.svc"}, start, DefaultLifetimes)
	if err != nil {
		t.Fatal(err)
	}
	second := mustRenew(t, first.data, start)
	verify(t, first.data[SecretCA], second.data, start)
}

// An API server that has not received the last change yet, which takes it less than the notice, can
// always connect.
func TestARenewalDoesNotInterruptClients(t *testing.T) {
	for seed := range int64(3) {
		random := rand.New(rand.NewSource(seed))
		now := start
		r := mustRenew(t, nil, now)
		known, changed, renewals := r.data[SecretCA], now, 0
		for now.Before(start.Add(25 * 365 * day)) {
			// Replicas act at their scheduled times, a little late, or after an unrelated wake-up.
			late, woken := r.again.Add(time.Duration(random.Intn(int(time.Minute)))),
				now.Add(time.Duration(random.Intn(int(150*day))))
			if now = late; woken.Before(late) {
				now = woken
			}
			if now.Sub(changed) > DefaultLifetimes.Notice/2 || random.Intn(2) == 0 {
				known = r.data[SecretCA]
			}
			r = mustRenew(t, r.data, now)
			verify(t, known, r.data, now)
			if r.changed {
				changed = now
				renewals++
			}
		}
		if renewals < 30 {
			t.Errorf("only %d renewals in 25 years", renewals)
		}
	}
}
