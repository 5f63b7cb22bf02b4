// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livesched/livesched/api/v1alpha1"
)

// The suite applies objects to a real API server with the generated CRDs installed. etcd and kube-apiserver are taken
// from KUBEBUILDER_ASSETS.
func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API types on a real API server")
}

var (
	environment *envtest.Environment
	restConfig  *rest.Config
	// k8s reads and writes objects as Go types.
	k8s client.Client
)

// patience bounds how long the control plane may take to start, and to stop.
const patience = 2 * time.Minute

var _ = BeforeSuite(func() {
	scheme := runtime.NewScheme()
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())

	environment = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		Scheme:                scheme,
		// Of these, envtest's own 20 and 10 seconds are too short for a machine that is busy with other things.
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
	}
	var err error
	restConfig, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	k8s, err = client.New(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if environment != nil {
		Expect(environment.Stop()).To(Succeed())
	}
})
