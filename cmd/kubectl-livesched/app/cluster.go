// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// fieldManager is the field manager of the changes.
const fieldManager = "kubectl-livesched"

// client returns a client without a cache for the cluster that the flags select.
func (o *options) client() (client.Client, error) {
	restConfig, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	restConfig.QPS = -1 // the API server shares itself out among its clients
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(restConfig, client.Options{Scheme: scheme, FieldOwner: fieldManager})
}

// readCluster reads the objects of the cluster that documents are checked with. It assumes that
// Secrets that the user may not read are valid.
func (o *options) readCluster(ctx context.Context, documents []manifests.Document) (*validate.Cluster, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	var profiles v1alpha1.SchedulerProfileList
	if err := c.List(ctx, &profiles); err != nil {
		return nil, err
	}
	var policies v1alpha1.SchedulingPolicyList
	if err := c.List(ctx, &policies); err != nil {
		return nil, err
	}
	cluster := &validate.Cluster{Profiles: profiles.Items, Policies: policies.Items,
		Secrets: map[types.NamespacedName]resolve.Secret{}}
	for name := range resolve.SecretRefs(append(validate.Policies(documents), policies.Items...), resolve.LastGood{}) {
		var secret corev1.Secret
		switch err := c.Get(ctx, name, &secret); {
		case err == nil:
			cluster.Secrets[name] = resolve.NewSecret(&secret)
		case apierrors.IsForbidden(err):
			cluster.SecretsUnknown = true
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading Secret %s: %w", name, err)
		}
	}
	return cluster, nil
}
