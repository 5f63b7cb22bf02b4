// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas finds the replicas of livesched that run in pods, and verifies them. Both
// `kubectl livesched` and a replica that passes a question on use it:
//
//	Lease, pods, published certificates  -> Find  -> which replicas run, and which one leads
//	certificate that a replica published -> Trust -> a client that sends credentials to it alone
package replicas

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/internal/servingcert"
)

// Selector selects livesched's pods, as config/manager labels them.
const Selector = "app.kubernetes.io/name=livesched"

const (
	// portName is the name of the secure port in a pod, and defaultPort its number if no port has
	// the name.
	portName    = "https-metrics"
	defaultPort = 10259
)

// Replica is a livesched that runs in a pod.
type Replica struct {
	// Pod is the name of the pod, Host the host name of its process, and IP its address, "" while
	// it has none.
	Pod, Host, IP string
	// Port is the secure port.
	Port   int32
	Leader bool
	Ready  bool
	// Certificate is what the replica has published. If it is nil, Unverified has the reason.
	Certificate *x509.Certificate
	Unverified  error
}

// Find returns the replicas that run in a namespace. The leader is the one that holds the Lease.
// Errors are those of the API server.
func Find(ctx context.Context, client kubernetes.Interface, namespace, lease string) ([]Replica, error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		return nil, err
	}
	published, publishedErr := client.CoreV1().ConfigMaps(namespace).Get(ctx, servingcert.PublishedConfigMap,
		metav1.GetOptions{})
	if publishedErr != nil && !apierrors.IsNotFound(publishedErr) {
		return nil, publishedErr
	}
	leader, err := leaderOf(ctx, client, namespace, lease)
	if err != nil {
		return nil, err
	}
	var found []Replica
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		r := Replica{Pod: pod.Name, Host: hostName(pod), IP: pod.Status.PodIP, Port: securePort(pod),
			Ready: podutil.IsPodReady(pod)}
		r.Leader = r.Host == leader
		if publishedErr != nil {
			r.Unverified = fmt.Errorf("there is no ConfigMap %s/%s: apply config/rbac of this version", namespace,
				servingcert.PublishedConfigMap)
		} else {
			r.Certificate, r.Unverified = certificateOf(pod, published.Data)
		}
		found = append(found, r)
	}
	return found, nil
}

// leaderOf returns the host name of the leader, empty if there is none.
func leaderOf(ctx context.Context, client kubernetes.Interface, namespace, name string) (string, error) {
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil // without leader election, there is one replica
	}
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil {
		return "", nil
	}
	return HostOf(*lease.Spec.HolderIdentity), nil
}

// HostOf returns the host name in the identity of a holder of the Lease: the identity is the host
// name and a unique suffix.
func HostOf(identity string) string {
	host, _, _ := strings.Cut(identity, "_")
	return host
}

// certificateOf returns the certificate that a pod has published.
func certificateOf(pod *corev1.Pod, published map[string]string) (*x509.Certificate, error) {
	certificate, err := servingcert.Published(published, hostName(pod))
	if err != nil {
		return nil, fmt.Errorf("%s in the ConfigMap %s: %w", hostName(pod), servingcert.PublishedConfigMap, err)
	}
	return certificate, nil
}

// hostName returns the host name of a process in a pod.
func hostName(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return pod.Spec.NodeName
	}
	return cmp.Or(pod.Spec.Hostname, pod.Name)
}

func securePort(pod *corev1.Pod) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return defaultPort
}
