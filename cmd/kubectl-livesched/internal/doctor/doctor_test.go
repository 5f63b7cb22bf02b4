// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The other faults are made real in the tests of the command. These cannot be, with one API server.
func TestTheVersionOfTheAPIServer(t *testing.T) {
	for _, test := range []struct {
		server string
		err    error
		state  State
		text   string
	}{
		{"v1.36.1-gke.100", nil, OK, "is one of the versions that livesched is tested with (1.34 to 1.37)"},
		{"v1.34.9+k3s1", nil, OK, "is one of"},
		{"v1.38.0-alpha.1", nil, Warning, "is newer than the versions"},
		{"v1.33.2", nil, Warning, "is older than the versions"},
		{"unknown", nil, Warning, "has version unknown"},
		{"", errors.New("no answer"), Unknown, "no answer"},
	} {
		e := &examination{Installation: Installation{
			Server: func() (*version.Info, error) { return &version.Info{GitVersion: test.server}, test.err }}}
		e.server(t.Context())
		if len(e.findings) != 1 || e.findings[0].State != test.state ||
			!strings.Contains(e.findings[0].Message, test.text) {
			t.Errorf("%s: %+v, want %s: %s", test.server, e.findings, test.state, test.text)
		}
	}
}

func TestDefinitionsThatAreMissing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	e := &examination{Installation: Installation{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}}
	e.definitions(t.Context())
	if len(e.findings) != 2 || e.findings[0].State != Failed ||
		e.findings[1].Message != "schedulingpolicies.livesched.io is missing" {
		t.Errorf("%+v", e.findings)
	}
}
