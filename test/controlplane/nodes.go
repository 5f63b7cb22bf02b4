// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	nodeutil "k8s.io/component-helpers/node/util"
)

// kubeletVersion is the version that the nodes report: the version of the control plane, as a test
// asserts.
const kubeletVersion = "v1.37.2"

// createParallelism is the number of nodes that are created concurrently.
const createParallelism = 16

// size is a machine type of the nodes that Node makes.
type size struct{ name, cpu, memory string }

var (
	zones = []string{"zone-a", "zone-b", "zone-c"}
	sizes = []size{{"small", "4", "16Gi"}, {"medium", "8", "32Gi"}, {"large", "16", "64Gi"}}
)

// Node returns the i-th node of a mixed cluster, without creating it. Zones alternate from node to
// node, sizes (4, 8 and 16 CPUs with 4 GiB each) every three nodes, so that every zone has every
// size. The node has room for 110 pods and has the labels of a cloud provider's node. kwok makes it
// ready.
func Node(i int) *corev1.Node {
	zone, size := zones[i%len(zones)], sizes[i/len(zones)%len(sizes)]
	name := fmt.Sprintf("node-%04d", i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(size.cpu),
		corev1.ResourceMemory:           resource.MustParse(size.memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				corev1.LabelHostname:           name,
				corev1.LabelOSStable:           "linux",
				corev1.LabelArchStable:         "amd64",
				corev1.LabelTopologyRegion:     "region-1",
				corev1.LabelTopologyZone:       zone,
				corev1.LabelInstanceTypeStable: size.name,
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room.DeepCopy(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.%d.%d.%d", 16+i>>16, i>>8&255, i&255)},
			},
			NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64",
				KubeletVersion: kubeletVersion},
		},
	}
}

// CreateNodes creates the first n nodes that Node describes and returns when all of them accept
// pods: they are ready and have no taint left. That requires kwok and, if kube-controller-manager
// runs, its removal of the not-ready taint. ctx bounds the wait.
func CreateNodes(ctx context.Context, config *rest.Config, n int) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating nodes: %w", err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(createParallelism)
	for i := range n {
		group.Go(func() error {
			_, err := client.CoreV1().Nodes().Create(groupCtx, Node(i), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating nodes: %w", err)
	}
	return waitForNodes(ctx, client, n)
}

// waitForNodes watches until n nodes accept pods.
func waitForNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	listWatch := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		fields.Everything())
	usable := make(map[string]bool, n)
	_, err := watchtools.UntilWithSync(ctx, listWatch, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
		node, ok := event.Object.(*corev1.Node)
		if !ok {
			return false, fmt.Errorf("unexpected %T among the nodes", event.Object)
		}
		delete(usable, node.Name)
		if event.Type != watch.Deleted && takesPods(node) {
			usable[node.Name] = true
		}
		return len(usable) >= n, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for nodes, of which %d of %d are ready and without taints: %w", len(usable), n, err)
	}
	return nil
}

func takesPods(node *corev1.Node) bool {
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return len(node.Spec.Taints) == 0 && ready != nil && ready.Status == corev1.ConditionTrue
}
