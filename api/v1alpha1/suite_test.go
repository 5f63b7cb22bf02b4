// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/controlplane"
)

// The suite applies objects to a real API server with the generated CRDs installed.
func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API types on a real API server")
}

var (
	// crds is the directory of the generated CustomResourceDefinitions.
	crds = filepath.Join("..", "..", "config", "crd", "bases")

	restConfig *rest.Config
	// k8s reads and writes objects as Go types.
	k8s client.Client
)

var _ = BeforeSuite(func(ctx context.Context) {
	controlPlane, err := controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(controlPlane.Stop)
	Expect(controlPlane.InstallCRDs(ctx, crds)).To(Succeed())

	scheme := runtime.NewScheme()
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	restConfig = controlPlane.Config()
	k8s, err = client.New(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})
