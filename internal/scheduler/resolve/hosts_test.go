// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestExtendersMayBeAtTheAllowedHosts(t *testing.T) {
	byDefault := resolve.DefaultAllowedHosts()
	list := []string{"one.example", "*.two.example", ".three.example:8443", "http://127.0.0.1:8888",
		"http://*.plain.example", "[2001:db8::1]:443", "2001:db8::2"}
	for _, test := range []struct {
		flag    []string
		url     string
		allowed bool
	}{
		{byDefault, "https://gpu.kube-system.svc", true},
		{byDefault, "https://gpu.kube-system.svc:8443/scheduler", true},
		{byDefault, "https://GPU.kube-system.SVC.", true},
		{byDefault, "https://gpu.kube-system.svc.cluster.local", true},
		{byDefault, "http://gpu.kube-system.svc", false},
		{byDefault, "https://svc", false},
		{byDefault, "https://.svc", false},
		{byDefault, "https://gpu.kube-system", false},
		{byDefault, "https://gpu.example", false},
		{byDefault, "https://gpu.svc.example", false},
		{byDefault, "https://169.254.169.254", false},
		{byDefault, "https://[::1]:443", false},
		{list, "https://one.example", true},
		{list, "https://one.example:8443", true},
		{list, "http://one.example", false},
		{list, "https://a.one.example", false},
		{list, "https://evilone.example", false},
		{list, "https://a.two.example", true},
		{list, "https://two.example", false},
		{list, "https://eviltwo.example", false},
		{list, "https://a.three.example:8443", true},
		{list, "https://a.three.example", false},
		{list, "http://127.0.0.1:8888", true},
		{list, "https://127.0.0.1:8888", true},
		{list, "http://127.0.0.1", false},
		{list, "http://a.plain.example", true},
		{list, "https://[2001:db8:0::1]", true},
		{list, "https://[2001:db8::1]:8443", false},
		{list, "https://[2001:DB8::2]:8443", true},
		{[]string{"off"}, "http://anything.example:1", true},
		{nil, "https://gpu.kube-system.svc", false},
	} {
		allowed, err := resolve.ParseAllowedHosts(test.flag)
		if err != nil {
			t.Fatal(err)
		}
		prefix, err := url.Parse(test.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := allowed.Allows(prefix); got != test.allowed {
			t.Errorf("%v allows %s: %v", test.flag, test.url, got)
		}
	}
}

func TestInvalidAllowedHosts(t *testing.T) {
	for _, values := range [][]string{
		{""}, {"*"}, {"."}, {"a b"}, {"a/b"}, {"ftp://a"}, {"http://"}, {"a:"}, {"a:0"}, {"a:http"}, {"a:1:2"},
		{"off", "a"}, {"a.*.b"}, {"me@a"}, {"https://a/b"},
	} {
		if allowed, err := resolve.ParseAllowedHosts(values); err == nil {
			t.Errorf("%q is read as %+v", values, allowed)
		}
	}
}

func TestAPolicyBeyondTheAllowedHostsIsNotAcceptedAndTheLastGoodOneStays(t *testing.T) {
	allowed, err := resolve.ParseAllowedHosts([]string{"*.svc", "http://127.0.0.1:80"})
	if err != nil {
		t.Fatal(err)
	}
	in := parseText(t, profileText("p", ``),
		policyText("default", `extenders: [{urlPrefix: "https://a.b.svc/x", filterVerb: f}]`))
	in.AllowedHosts = allowed
	first := resolve.Objects(in)
	if result := first.PolicyResults["default"]; !result.Accepted {
		t.Fatal(result.Message)
	}
	next := parseText(t, profileText("p", ``),
		policyText("default", `extenders: [{urlPrefix: "http://user.example/x", filterVerb: f}]`))
	next.Policies[0].Generation = 2
	next.AllowedHosts, next.LastGood, next.Last = allowed, first.LastGood(running(first)), first
	second := resolve.Objects(next)
	const want = `spec.extenders[0].urlPrefix: livesched's flag --extender-allowed-hosts does not allow ` +
		`http://user.example; it allows HTTPS to *.svc, 127.0.0.1:80 (also over HTTP)`
	if result := second.PolicyResults["default"]; result.Accepted ||
		result.Reason != v1alpha1.ReasonExtenderHostNotAllowed || result.Message != want || !result.KeptLastGood {
		t.Errorf("got %+v", result)
	}
	if p := second.Profiles["p"]; p == nil || p.PolicyGeneration != 1 {
		t.Errorf("runs %+v", p)
	}

	// After a restart with another flag, neither is allowed.
	next.AllowedHosts, next.Last = resolve.AllowedHosts{}, nil
	if third := resolve.Objects(next); third.Profiles["p"] != nil ||
		!strings.Contains(third.PolicyResults["default"].Message, "allows no hosts") {
		t.Errorf("runs %+v: %+v", third.Profiles["p"], third.PolicyResults["default"])
	}
}
