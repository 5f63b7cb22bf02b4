// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"
)

// withoutDevices is the mapper of an API server with resource.k8s.io turned off.
type withoutDevices struct{ meta.RESTMapper }

func (m withoutDevices) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if gk.Group == resourcev1.GroupName {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}

func TestTheKindsThatPluginsUseAndTheAPIServerLacks(t *testing.T) {
	e := newTestEnvFor(t, nil, withoutDevices{sharedCluster.GetRESTMapper()})
	p := e.build(t, object("mine"))
	e.sources.missing = []schema.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "Foo"}}
	want := []schema.GroupVersionKind{
		{Group: "example.com", Version: "v1", Kind: "Foo"},
		resourcev1.SchemeGroupVersion.WithKind("DeviceClass"),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"),
		resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"),
	}
	if diff := cmp.Diff(want, p.MissingKinds()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := newTestEnv(t, nil).build(t, object("mine")).MissingKinds(); len(got) != 0 {
		t.Errorf("an API server that has all kinds lacks %v", got)
	}
}

func TestAResourceOfAPluginAndItsKind(t *testing.T) {
	for resource, want := range map[fwk.EventResource]bool{
		fwk.ResourceClaim:                   true,
		fwk.ResourceSlice:                   false,
		"example.com/ResourceClaim":         false,
		"ResourceClaim":                     false,
		fwk.WildCard:                        false,
		"resourceclaims.v1.resource.k8s.io": false,
	} {
		if got := isResource(resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), resource); got != want {
			t.Errorf("%s: %v, want %v", resource, got, want)
		}
	}
	if !isResource(schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}, fwk.PersistentVolume) {
		t.Error("a kind of the core group is not found")
	}
}
