// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/docs"
	. "github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
	"github.com/livesched/livesched/test/testextender"
)

// recipe is what a recipe of the page promises on some nodes.
type recipe struct {
	nodes []*corev1.Node
	check func(placement)
	// adapt changes the manifest where it names something outside of the cluster.
	adapt func(manifest string) string
}

// recipes are by the headings of the page.
var recipes = map[string]recipe{
	"Spread over zones": {
		nodes: []*corev1.Node{zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), zoned("b2", "b"), zoned("c1", "c"),
			zoned("c2", "c")},
		check: func(p placement) {
			Expect(p.perValue("web", corev1.LabelTopologyZone)).To(Equal(map[string]int{"a": 2, "b": 2, "c": 2}))
			Expect(p.perNode("web")).To(HaveLen(6))
		},
	},
	"Pack nodes": {
		nodes: []*corev1.Node{node("n1", "8"), node("n2", "8"), node("n3", "8")},
		check: func(p placement) { Expect(p.perNode("batch")).To(HaveLen(1)) },
	},
	"Pack nodes up to 80 percent": {
		nodes: []*corev1.Node{node("n1", "10"), node("n2", "10"), node("n3", "10")},
		check: func(p placement) {
			Expect(slices.Sorted(maps.Values(p.perNode("render")))).To(Equal([]int{8, 8}))
		},
	},
	"Balance memory": {
		nodes: []*corev1.Node{sized("small-1", "16Gi"), sized("small-2", "16Gi"), sized("large", "64Gi")},
		check: func(p placement) { Expect(p.perNode("cache")).To(Equal(map[string]int{"large": 3})) },
	},
	"Spot nodes first": {
		nodes: []*corev1.Node{
			node("on-demand-1", "8"), node("on-demand-2", "8"),
			objects.Tainted(node("spot-1", "3", "karpenter.sh/capacity-type", "spot"), "spot"),
		},
		check: func(p placement) {
			Expect(p.perValue("worker", "karpenter.sh/capacity-type")).To(Equal(map[string]int{"spot": 3, "": 1}))
		},
	},
	"Nodes of a team": {
		nodes: []*corev1.Node{
			node("shared", "64"), node("b1", "8", "example.com/team", "b"),
			node("a1", "8", "example.com/team", "a"), node("a2", "8", "example.com/team", "a"),
		},
		check: func(p placement) {
			Expect(p.perValue("api", "example.com/team")).To(Equal(map[string]int{"a": 4}))
			Expect(p.perNode("api")).To(HaveLen(2), "among these nodes, the default profile decides")
		},
	},
	"GPU nodes for GPU pods": {
		nodes: []*corev1.Node{withGPUs("gpu-1"), withGPUs("gpu-2"), node("n1", "4"), node("n2", "4")},
		check: func(p placement) {
			Expect(p.perValue("frontend", "nvidia.com/gpu.present")).To(Equal(map[string]int{"": 4}))
			Expect(p.perNode("infer")).To(HaveLen(1))
		},
	},
	"A job in one rack": {
		nodes: []*corev1.Node{
			node("r1-1", "3", "example.com/rack", "r1"),
			node("r2-1", "2", "example.com/rack", "r2"), node("r2-2", "2", "example.com/rack", "r2"),
			node("r3-1", "1", "example.com/rack", "r3"),
		},
		check: func(p placement) {
			Expect(p.perValue("train", "example.com/rack")).To(Equal(map[string]int{"r2": 4}))
		},
	},
	"Nodes that have the image": {
		nodes: []*corev1.Node{node("n1", "8"), withImage("n2", "registry.example.com/model:v1"), node("n3", "8")},
		check: func(p placement) { Expect(p.perNode("model")).To(Equal(map[string]int{"n2": 2})) },
	},
	"An extender": {
		nodes: []*corev1.Node{node("n1", "8"), node("n2", "8"), node("n3", "8")},
		adapt: func(manifest string) string {
			extender, err := testextender.Start(testextender.Options{Client: K8s, Log: GinkgoWriter})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { Expect(extender.Stop()).To(Succeed()) })
			extender.Perform(testextender.Script{Refused: map[string]string{"n1": "no licence"},
				Scores: map[string]int64{"n3": 10}})
			const address = "https://licences.tools.svc:8443/scheduler"
			Expect(manifest).To(ContainSubstring(address))
			return strings.Replace(manifest, address, extender.URL, 1)
		},
		check: func(p placement) { Expect(p.perNode("solver")).To(Equal(map[string]int{"n3": 2})) },
	},
}

var _ = Describe("A recipe", func() {
	pages, err := docs.Pages(testcluster.Root())
	if err != nil {
		panic(err)
	}
	at := slices.IndexFunc(pages, func(p docs.Page) bool { return p.File == "docs/recipes.md" })
	manifests := pages[at].Manifests()

	It("of the page has a test, and the other way round", func() {
		Expect(slices.Sorted(maps.Keys(manifests))).To(Equal(slices.Sorted(maps.Keys(recipes))))
	})
	for name, r := range recipes {
		It("places its pods as it says: "+name, func(ctx context.Context) {
			Expect(Cluster.InstallPodGroups(ctx)).To(Succeed())
			Start(func(o *liveschedapp.Options) { o.ExtenderAllowedHosts = []string{"off"} })
			for _, n := range r.nodes {
				Create(ctx, n.DeepCopy())
			}
			manifest := manifests[name]
			if r.adapt != nil {
				manifest = r.adapt(manifest)
			}
			r.check(apply(ctx, manifest))
		})
	}
})

// node returns a node with CPUs, 64 GiB of memory, and labels as keys and values.
func node(name, cpu string, labels ...string) *corev1.Node {
	all := map[string]string{corev1.LabelHostname: name}
	for i := 0; i < len(labels); i += 2 {
		all[labels[i]] = labels[i+1]
	}
	return objects.Node(name, cpu, "64Gi", all)
}

func zoned(name, zone string) *corev1.Node {
	return node(name, "8", corev1.LabelTopologyZone, zone)
}

func sized(name, memory string) *corev1.Node {
	n := node(name, "8")
	n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse(memory)
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func withGPUs(name string) *corev1.Node {
	n := node(name, "64", "nvidia.com/gpu.present", "true")
	n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func withImage(name, image string) *corev1.Node {
	n := node(name, "8")
	n.Status.Images = []corev1.ContainerImage{{Names: []string{image}, SizeBytes: 10 << 30}}
	return n
}
