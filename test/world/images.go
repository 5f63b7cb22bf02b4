// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxImages is how many images nodes and pods have, among which they choose.
const maxImages = 5

func imageName(number int) string { return fmt.Sprintf("registry.example.com/image-%d:v1", number) }

// changeImages lets a kubelet report that it has pulled an image, or removed one.
func (w *World) changeImages(r *rand.Rand) {
	nodes := sorted(w.cluster.nodes)
	if len(nodes) == 0 {
		return
	}
	node, number := one(r, nodes).DeepCopy(), r.IntN(maxImages)
	images := slices.DeleteFunc(node.Status.Images,
		func(image corev1.ContainerImage) bool { return slices.Contains(image.Names, imageName(number)) })
	if len(images) == len(node.Status.Images) {
		images = append(images, corev1.ContainerImage{Names: []string{imageName(number)},
			SizeBytes: int64(1+number) * 250 << 20})
	}
	node.Status.Images = images
	w.log.add("node %s has %d images", node.Name, len(images))
	w.must(w.cluster.objects.Status().Update(w.ctx, node))
}
