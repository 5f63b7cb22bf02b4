// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// BenchmarkDecidePulled measures decisions about pods with an image that a third of the nodes have:
// while nothing but placements happens, and while one node pulls or removes the image, or is added,
// before each decision. It includes what the cache does about the node.
func BenchmarkDecidePulled(b *testing.B) {
	const nodes = 5000
	for _, kind := range []string{workload.Pulled, workload.Basic} {
		for _, happens := range []string{"nothing", "pull", "add"} {
			b.Run(fmt.Sprintf("%s/%s", kind, happens), func(b *testing.B) {
				c := newPulled(b, nodes)
				from := workload.Pods{Kind: kind, Nodes: nodes}
				pods := make([]*corev1.Pod, warmUp+b.N)
				for i := range pods {
					pods[i] = workload.Admit(from.Pod(i))
				}
				c.place(b, pods[:warmUp])
				before := decidebench.CPUTime()
				b.ResetTimer()
				for _, pod := range pods[warmUp:] {
					switch happens {
					case "pull":
						c.pull()
					case "add":
						c.add()
					}
					c.place(b, []*corev1.Pod{pod})
				}
				b.StopTimer()
				b.ReportMetric(float64((decidebench.CPUTime()-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/pod")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "us/pod")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// pulled is livesched with nodes that pull an image, one after the other.
type pulled struct {
	decidebench.Cluster
	nodes []*corev1.Node
	next  int
}

func newPulled(b *testing.B, nodes int) *pulled {
	cluster, err := decidebench.New(decidebench.Livesched)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cluster.Close)
	c := &pulled{Cluster: cluster}
	for range nodes {
		c.add()
	}
	return c
}

func (c *pulled) add() {
	node := workload.Node(len(c.nodes))
	c.nodes = append(c.nodes, node)
	c.AddNode(node)
}

// pull changes whether the next node has the image.
func (c *pulled) pull() {
	before := c.nodes[c.next%len(c.nodes)]
	after := before.DeepCopy()
	if len(after.Status.Images) > 0 {
		after.Status.Images = nil
	} else {
		workload.Pull(after)
	}
	c.nodes[c.next%len(c.nodes)] = after
	c.next++
	c.UpdateNode(before, after)
}

func (c *pulled) place(b *testing.B, pods []*corev1.Pod) {
	for _, pod := range pods {
		if _, err := c.Place(pod); err != nil {
			b.Fatal(err)
		}
	}
}
