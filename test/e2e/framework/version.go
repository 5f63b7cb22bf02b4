// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// serverVersion is the version of the suite's API server, which is that of livesched's plugins or,
// with `make test-skew`, another one.
var serverVersion = sync.OnceValue(func() *version.Version {
	GinkgoHelper()
	client, err := discovery.NewDiscoveryClientForConfig(Cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	info, err := client.ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	return version.MustParseGeneric(info.GitVersion)
})

// ServerAtLeast reports whether the API server of the suite has a minor version, such as "1.35", or
// a later one.
func ServerAtLeast(minor string) bool {
	GinkgoHelper()
	return serverVersion().AtLeast(version.MustParseGeneric(minor))
}

// NeedsServer skips the spec if the API server of the suite is older than a minor version.
func NeedsServer(minor, why string) {
	GinkgoHelper()
	if !ServerAtLeast(minor) {
		Skip("the API server is older than " + minor + ": " + why)
	}
}

// ExpectNominationEnded expects that a pod, as it was read after its binding, is not nominated for
// a node any more. API servers end the nomination with the binding since 1.35. With an older one it
// stays, as it does with kube-scheduler: no scheduler heeds the nomination of a bound pod.
func ExpectNominationEnded(pod *corev1.Pod) {
	GinkgoHelper()
	if ServerAtLeast("1.35") {
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
	}
}
