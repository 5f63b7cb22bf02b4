// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	certutil "k8s.io/client-go/util/cert"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// upstreamExtenders converts extenders to those of kube-scheduler's configuration, which have the
// same fields except for the Secret.
func upstreamExtenders(t *testing.T, extenders []v1alpha1.Extender) []schedconfig.Extender {
	t.Helper()
	text, err := json.Marshal(extenders)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var versioned configv1.KubeSchedulerConfiguration
	if err := decoder.Decode(&versioned.Extenders); err != nil {
		t.Fatal(err)
	}
	var internal schedconfig.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &internal, nil); err != nil {
		t.Fatal(err)
	}
	return internal.Extenders
}

func randomExtender(random *rand.Rand) v1alpha1.Extender {
	verb := func(name string) string { return []string{"", "", name}[random.Intn(3)] }
	e := v1alpha1.Extender{
		URLPrefix:  "http://extender.example/path",
		FilterVerb: verb("filter"), PreemptVerb: verb("preempt"), PrioritizeVerb: verb("prioritize"),
		Weight:           int64(random.Intn(6) - 1),
		NodeCacheCapable: random.Intn(2) == 0,
		Ignorable:        random.Intn(2) == 0,
	}
	if random.Intn(4) == 0 {
		e.BindVerb = "bind"
	}
	for range random.Intn(3) {
		names := []string{"example.com/a", "example.com/b", "example.com/c", "example.com/d", "cpu", "kubernetes.io/e",
			"a b/c", "requests.example.com/f", ""}
		e.ManagedResources = append(e.ManagedResources, v1alpha1.ExtenderManagedResource{
			Name:               names[min(random.Intn(40)%len(names), random.Intn(len(names)))],
			IgnoredByScheduler: random.Intn(2) == 0,
		})
	}
	return e
}

// Objects reports the same problems of extenders as kube-scheduler's validation.
func TestRandomExtendersAreAcceptedAsInKubeScheduler(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	accepted := 0
	for i := range 2000 {
		var extenders []v1alpha1.Extender
		for range 1 + random.Intn(3) {
			extenders = append(extenders, randomExtender(random))
		}
		configuration, err := latest.Default()
		if err != nil {
			t.Fatal(err)
		}
		configuration.Extenders = upstreamExtenders(t, extenders)
		want := validation.ValidateKubeSchedulerConfiguration(configuration)
		policy := v1alpha1.SchedulingPolicy{Spec: v1alpha1.SchedulingPolicySpec{Extenders: extenders}}
		policy.Name = "default"
		resolution := resolve.Objects(resolve.Input{AllowedHosts: resolve.AnyHost(),
			Policies: []v1alpha1.SchedulingPolicy{policy}, Registered: registered()})
		result := resolution.PolicyResults["default"]
		if result.Accepted != (want == nil) {
			text, _ := json.Marshal(extenders)
			t.Fatalf("case %d: accepted %v (%s), kube-scheduler says %v\n%s", i, result.Accepted, result.Message,
				want, text)
		}
		if result.Accepted {
			accepted++
		}
	}
	if accepted < 200 {
		t.Errorf("only %d were accepted: the test shows little", accepted)
	}
}

func TestIgnorableExtendersComeLastAndTheOthersKeepTheirOrder(t *testing.T) {
	resolution := resolveText(t, profileText("p", ``), policyText("default", `extenders: [
		{urlPrefix: "http://a", ignorable: true}, {urlPrefix: "http://b"}, {urlPrefix: "http://c", ignorable: true}, {urlPrefix: "http://d"}]`))
	var got []string
	for _, e := range resolution.Profiles["p"].Extenders {
		got = append(got, e.URLPrefix)
	}
	if want := []string{"http://b", "http://d", "http://a", "http://c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// tlsSecret is a Secret of the golden files.
func tlsSecret(t *testing.T, n int) resolve.Secret {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "secret-breaks-and-heals", fmt.Sprintf("%d.in.yaml", n)))
	if err != nil {
		t.Fatal(err)
	}
	in, err := parseObjects(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range in.Secrets {
		return secret
	}
	t.Fatal("there is no Secret")
	return resolve.Secret{}
}

func TestSecretContentsAreNeverShown(t *testing.T) {
	secret := tlsSecret(t, 1)
	profile := &resolve.Profile{
		Settings: resolve.Settings{Extenders: []resolve.Extender{{TLS: resolve.ExtenderTLS{Secret: &secret}}}}}
	good := resolve.GoodPolicy{Secrets: map[types.NamespacedName]resolve.Secret{{Name: "a"}: secret}}
	var logged bytes.Buffer
	logger := funcr.NewJSON(func(line string) { logged.WriteString(line) }, funcr.Options{})
	logger.Info("a Secret", "secret", secret, "pointer", &secret, "extender", profile.Extenders[0], "good", good)
	marshalled, err := json.Marshal(map[string]any{"secret": secret, "profile": profile, "good": good})
	if err != nil {
		t.Fatal(err)
	}
	shown := logged.String() + string(marshalled)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown += fmt.Sprintf(format, secret) + fmt.Sprintf(format, &secret) + fmt.Sprintf(format, profile.Extenders) +
			fmt.Sprintf(format, good)
	}
	pair, err := secret.ClientCertificates()
	if err != nil || len(pair) != 1 {
		t.Fatalf("got %v", err)
	}
	// Every text in the Secret has such lines; the numbers are bytes as fmt prints them by default.
	for _, trace := range []string{"PRIVATE", "BEGIN", "MHcCAQEE", "45 45 45", "2d2d2d", "0x2d, 0x2d"} {
		if bytes.Contains([]byte(shown), []byte(trace)) {
			t.Errorf("%q shows in\n%s", trace, shown)
		}
	}
}

func TestARevisionDependsOnTheSecretsOfItsExtenders(t *testing.T) {
	const (
		extended = `extenders: [{urlPrefix: "https://a", tlsConfig: {secretRef: {namespace: tls, name: tls}}}]`
		plain    = `extenders: [{urlPrefix: "https://a"}]`
	)
	revision := func(policy string, secret resolve.Secret) string {
		in := parseText(t, profileText("p", `policyRef: {name: q}`), policyText("q", policy))
		in.Secrets = map[types.NamespacedName]resolve.Secret{{Namespace: "tls", Name: "tls"}: secret}
		resolution := resolve.Objects(in)
		if !resolution.PolicyResults["q"].Accepted {
			t.Fatal(resolution.PolicyResults["q"].Message)
		}
		return resolution.Profiles["p"].Revision
	}
	if first, again := revision(extended, tlsSecret(t, 1)), revision(extended, tlsSecret(t, 1)); first != again {
		t.Error("one Secret has two revisions")
	}
	if seen := sets.New(revision(extended, tlsSecret(t, 1)), revision(extended, tlsSecret(t, 5)),
		revision(extended, tlsSecret(t, 6)), revision(plain, tlsSecret(t, 1))); len(seen) != 4 {
		t.Errorf("four different settings have the revisions %v", sets.List(seen))
	}
	if revision(plain, tlsSecret(t, 1)) != revision(plain, tlsSecret(t, 5)) {
		t.Error("a Secret that no extender names makes a difference")
	}
}

func TestASecretThatCannotBeReadIsNamedWithTheReason(t *testing.T) {
	in := parseText(t, policyText("default",
		`extenders: [{urlPrefix: "https://a", tlsConfig: {secretRef: {namespace: tls, name: tls}}}]`))
	in.Secrets = map[types.NamespacedName]resolve.Secret{
		{Namespace: "tls", Name: "tls"}: resolve.UnreadableSecret(errors.New("you shall not"))}
	result := resolve.Objects(in).PolicyResults["default"]
	const want = `spec.extenders[0].tlsConfig.secretRef: Secret "tls" in namespace "tls" cannot be read: you shall not`
	if result.Reason != v1alpha1.ReasonSecretNotReadable || result.Message != want {
		t.Errorf("got %s: %s", result.Reason, result.Message)
	}
	if refs := resolve.SecretRefs(in.Policies, resolve.LastGood{}); len(refs) != 1 ||
		!refs.Has(types.NamespacedName{Namespace: "tls", Name: "tls"}) {
		t.Errorf("named are %v", refs)
	}
}

func TestLastGoodPolicyFromBeforeARestartUsesCurrentSecrets(t *testing.T) {
	const extended = `extenders: [{urlPrefix: "https://a", tlsConfig: {secretRef: {namespace: tls, name: tls}}}]`
	in := parseText(t, policyText("default", `parallelism: 0`), profileText("p", ``))
	in.Policies[0].Generation = 2
	good := parseText(t, policyText("default", extended)).Policies[0]
	in.LastGood.Policies = map[string][]resolve.GoodPolicy{
		"default": {{Name: "default", UID: good.UID, Generation: 1, Spec: good.Spec}}}
	name := types.NamespacedName{Namespace: "tls", Name: "tls"}
	if refs := resolve.SecretRefs(in.Policies, in.LastGood); !refs.Has(name) {
		t.Errorf("named are %v", refs)
	}
	if got := resolve.Objects(in); got.Profiles["p"] != nil {
		t.Errorf("runs without its Secret: %+v", got.Profiles["p"])
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("a", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Secrets = map[types.NamespacedName]resolve.Secret{name: resolve.NewSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelSchedulingPolicy: "default"}},
		Data:       map[string][]byte{"ca.crt": certificate, "tls.crt": certificate, "tls.key": key},
	})}
	first := resolve.Objects(in)
	if got := first.Profiles["p"]; got == nil || got.PolicyGeneration != 1 || len(got.Extenders) != 1 ||
		got.Extenders[0].TLS.Secret == nil {
		t.Fatalf("resolved %+v", got)
	}
	// From now on the Secret is neither stored nor read.
	in.LastGood, in.Secrets = first.LastGood(running(first)), nil
	if refs := resolve.SecretRefs(in.Policies, in.LastGood); refs.Has(name) {
		t.Errorf("named are %v", refs)
	}
	if got := resolve.Objects(in).Profiles["p"]; got == nil || got.Revision != first.Profiles["p"].Revision {
		t.Errorf("resolved %+v", got)
	}
}
