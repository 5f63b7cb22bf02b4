// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
)

const (
	driver = "csi.example.com"
	// topologyKey is the label with which the driver identifies a node.
	topologyKey = "topology.csi.example.com/node"
)

// errFull is the error of a provisioner on a node without room.
var errFull = errors.New("no room for a volume")

// provisioner does what the external provisioner of a CSI driver does. Each volume of the driver
// belongs to one node. When a claim has a selected node, the provisioner creates a volume there. If
// the node has no room, it removes the selected node from the claim.
type provisioner struct {
	// provision returns an error if a node has no room.
	provision func(ctx context.Context, node string) error

	mu        sync.Mutex // guards requested
	requested []string   // the nodes for which volumes were requested, in order
}

// startProvisioner runs a provisioner for the claims of the spec's namespace until the end of the
// spec.
func startProvisioner(ctx context.Context, provision func(ctx context.Context, node string) error) *provisioner {
	GinkgoHelper()
	p := &provisioner{provision: provision}
	stop := make(chan struct{})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	informer := cache.NewSharedInformer(cache.NewListWatchFromClient(clients.CoreV1().RESTClient(),
		"persistentvolumeclaims", namespace, fields.Everything()), &corev1.PersistentVolumeClaim{}, 0)
	see := func(obj any) {
		if err := p.see(running, obj.(*corev1.PersistentVolumeClaim)); err != nil && running.Err() == nil {
			GinkgoLogr.Error(err, "provisioning")
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see,
		UpdateFunc: func(_, obj any) { see(obj) }})
	Expect(err).NotTo(HaveOccurred())
	var ended sync.WaitGroup
	ended.Go(func() { informer.Run(stop) })
	DeferCleanup(func() {
		cancel()
		close(stop)
		ended.Wait()
	})
	return p
}

// see handles one claim at a time.
func (p *provisioner) see(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	node := claim.Annotations[volume.AnnSelectedNode]
	if claim.Annotations[volume.AnnStorageProvisioner] != driver || claim.Spec.VolumeName != "" || node == "" {
		return nil
	}
	p.mu.Lock()
	p.requested = append(p.requested, node)
	p.mu.Unlock()
	if err := p.provision(ctx, node); err != nil {
		claim = claim.DeepCopy()
		delete(claim.Annotations, volume.AnnSelectedNode)
		return K8s.Update(ctx, claim)
	}
	return client.IgnoreAlreadyExists(K8s.Create(ctx, provisioned(claim, node)))
}

func (p *provisioner) requestedNodes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requested...)
}

// provisioned returns the volume of a claim on a node.
func provisioned(claim *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"spec": claim.Namespace},
			Annotations: map[string]string{volume.AnnDynamicallyProvisioned: driver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, StorageClassName: *claim.Spec.StorageClassName,
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
			NodeAffinity: nodeAffinity(topologyKey, node),
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID},
		},
	}
}

// clearProvisioned deletes the volumes that the spec's provisioners have created.
func clearProvisioned(ctx context.Context) {
	GinkgoHelper()
	var list corev1.PersistentVolumeList
	Expect(K8s.List(ctx, &list, client.MatchingLabels{"spec": namespace})).To(Succeed())
	for i := range list.Items {
		deleteVolume(ctx, &list.Items[i])
	}
}
