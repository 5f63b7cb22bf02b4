// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

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

const (
	// selector selects livesched's pods, as config/manager labels them.
	selector = "app.kubernetes.io/name=livesched"
	// portName is the name of the secure port in a pod, and defaultPort its number if no port has
	// the name.
	portName    = "https-metrics"
	defaultPort = 10259
)

// replica is a livesched that runs in a pod.
type replica struct {
	pod    string
	port   int32
	leader bool
	ready  bool
	// certificate is what the replica has published. If it is nil, unverified has the reason.
	certificate *x509.Certificate
	unverified  error
}

// order returns the rank of a replica: the replica with the lowest rank is asked first.
type order func(r replica) int

// leaderFirst asks the leader first: only it knows the attempts to schedule a pod. Then come
// the replicas that are ready.
func leaderFirst(r replica) (rank int) {
	if !r.leader {
		rank += 2
	}
	if !r.ready {
		rank++
	}
	return rank
}

// followersFirst asks the replicas first that are ready and do not lead, and the leader before
// replicas that are not ready.
func followersFirst(r replica) (rank int) {
	if !r.ready {
		rank += 2
	}
	if r.leader {
		rank++
	}
	return rank
}

// replicas returns the replicas that run.
func (l *Livesched) replicas(ctx context.Context) ([]replica, error) {
	client, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods(l.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, l.looking(err)
	}
	published, publishedErr := client.CoreV1().ConfigMaps(l.Namespace).Get(ctx, servingcert.PublishedConfigMap,
		metav1.GetOptions{})
	if publishedErr != nil && !apierrors.IsNotFound(publishedErr) {
		return nil, l.looking(publishedErr)
	}
	leader, err := l.leader(ctx, client)
	if err != nil {
		return nil, l.looking(err)
	}
	var found []replica
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		r := replica{pod: pod.Name, port: securePort(pod), leader: hostName(pod) == leader,
			ready: podutil.IsPodReady(pod)}
		if publishedErr != nil {
			r.unverified = fmt.Errorf("there is no ConfigMap %s/%s: apply config/rbac of this version", l.Namespace,
				servingcert.PublishedConfigMap)
		} else {
			r.certificate, r.unverified = certificateOf(pod, published.Data)
		}
		found = append(found, r)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w in namespace %s (label %s): see --livesched-namespace and --livesched-url",
			ErrNoReplica, l.Namespace, selector)
	}
	return found, nil
}

// looking adds to an error what would permit the user to find livesched.
func (l *Livesched) looking(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: the Role livesched-client in %s permits it", err, l.Namespace)
	}
	return fmt.Errorf("looking for livesched in namespace %s: %w", l.Namespace, err)
}

// leader returns the host name of the leader, empty if there is none.
func (l *Livesched) leader(ctx context.Context, client kubernetes.Interface) (string, error) {
	lease, err := client.CoordinationV1().Leases(l.Namespace).Get(ctx, l.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil // without leader election, there is one replica
	}
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil {
		return "", nil
	}
	// The identity is the host name and a unique suffix.
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return host, nil
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
