// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// podCounts are the pending pods of a profile by queue. -1 means unknown.
type podCounts struct {
	Active        int `json:"active"`
	Backoff       int `json:"backoff"`
	Unschedulable int `json:"unschedulable"`
	Gated         int `json:"gated"`
}

func (c podCounts) row() []string {
	var row []string
	for _, count := range []int{c.Active, c.Backoff, c.Unschedulable, c.Gated} {
		if count < 0 {
			row = append(row, none)
		} else {
			row = append(row, fmt.Sprint(count))
		}
	}
	return row
}

// pending returns the number of pods that wait, in any queue.
func (c podCounts) pending() int {
	return max(c.Active, 0) + max(c.Backoff, 0) + max(c.Unschedulable, 0) + max(c.Gated, 0)
}

// add adds pods of a queue, which has the name of the metric's label value.
func (c *podCounts) add(queue string, count int) {
	switch queue {
	case "active":
		c.Active += count
	case "backoff":
		c.Backoff += count
	case "unschedulable":
		c.Unschedulable += count
	case "gated":
		c.Gated += count
	}
}

const (
	// pendingPods is livesched's metric of pending pods by profile and queue.
	pendingPods = "livesched_pending_pods"
	// metricsTimeout limits the time for reading the metrics, because there is a fallback.
	metricsTimeout = 5 * time.Second
	// conditionsSource describes how pods are counted without the metrics.
	conditionsSource = "counted by their conditions, which do not distinguish backoff from active"
)

// queueOptions holds the location of livesched's metrics.
type queueOptions struct {
	leaseName, metricsURL, metricsToken string
	// metricsInsecure accepts any certificate of metricsURL.
	metricsInsecure bool
}

// countPods counts the pending pods by scheduler name. It also returns the source of the counts.
func (o *statusOptions) countPods(ctx context.Context, c client.Client, profiles []v1alpha1.SchedulerProfile) (map[string]podCounts, string, error) {
	text, from, err := o.metrics(ctx, c)
	if err == nil {
		var counts map[string]podCounts
		if counts, err = parsePending(text); err == nil {
			return counts, from, nil
		}
	}
	counts, listErr := countByConditions(ctx, c, profiles)
	return counts, fmt.Sprintf("%s (metrics: %v)", conditionsSource, err), listErr
}

// metrics reads the metrics of the leader, which alone schedules pods.
func (o *statusOptions) metrics(ctx context.Context, c client.Client) (text []byte, from string, err error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	if o.metricsURL != "" {
		text, err = o.get(ctx, o.metricsURL)
		return text, "from the metrics at " + o.metricsURL, err
	}
	var lease coordinationv1.Lease
	if err := c.Get(ctx, client.ObjectKey{Namespace: o.liveschedNamespace, Name: o.leaseName}, &lease); err != nil {
		return nil, "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, "", fmt.Errorf("no replica holds the Lease %s/%s", o.liveschedNamespace, o.leaseName)
	}
	// The identity is the host name, which is the pod's name, and a unique suffix.
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	var pod corev1.Pod
	if err := c.Get(ctx, client.ObjectKey{Namespace: o.liveschedNamespace, Name: name}, &pod); err != nil {
		return nil, "", fmt.Errorf("the leader is %s: %w", name, err)
	}
	restConfig, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, "", err
	}
	clientset, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, "", err
	}
	port, ok := metricsPort(&pod)
	if !ok {
		return nil, "", fmt.Errorf("the leader %s serves metrics only on its secure port: see --metrics-url", name)
	}
	text, err = clientset.CoreV1().Pods(o.liveschedNamespace).ProxyGet("http", name, port, "metrics", nil).DoRaw(ctx)
	return text, fmt.Sprintf("from the metrics of the leader, pod %s/%s", o.liveschedNamespace, name), err
}

// metricsPort returns the port named metrics of a pod, or port 8080 if the pod names no other one
// for metrics. It returns false if the pod has only the secure port: the API server, as a proxy,
// does not pass the caller's credentials on.
func metricsPort(pod *corev1.Pod) (string, bool) {
	secure := false
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "metrics" {
				return fmt.Sprint(port.ContainerPort), true
			}
			secure = secure || port.Name == "https-metrics"
		}
	}
	return "8080", !secure
}

func (o *queueOptions) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if o.metricsToken != "" {
		if request.URL.Scheme != "https" {
			return nil, errors.New("--metrics-token: is sent to an https URL only")
		}
		request.Header.Set("Authorization", "Bearer "+o.metricsToken)
	}
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: o.metricsInsecure},
	}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// parsePending returns the counts of pending pods in a metrics text.
func parsePending(text []byte) (map[string]podCounts, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	family := families[pendingPods]
	if family == nil && families["livesched_profiles"] == nil {
		return nil, errors.New("not the metrics of livesched")
	}
	counts := map[string]podCounts{}
	for _, metric := range family.GetMetric() { // the metric has no series without pods
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		of := counts[labels["profile"]]
		of.add(labels["queue"], int(metric.GetGauge().GetValue()))
		counts[labels["profile"]] = of
	}
	return counts, nil
}

// countByConditions counts the pods of each profile that have no node by their condition
// PodScheduled.
func countByConditions(ctx context.Context, c client.Client, profiles []v1alpha1.SchedulerProfile) (map[string]podCounts, error) {
	counts := map[string]podCounts{}
	for i := range profiles {
		name := config.SchedulerName(&profiles[i])
		of := podCounts{Backoff: -1}
		page := client.ListOptions{}
		for {
			var pods corev1.PodList
			fields := client.MatchingFields{"spec.nodeName": "", "spec.schedulerName": name}
			if err := c.List(ctx, &pods, fields, client.Limit(500), client.Continue(page.Continue)); err != nil {
				return nil, err
			}
			for j := range pods.Items {
				of.add(queueByConditions(&pods.Items[j]), 1)
			}
			if page.Continue = pods.Continue; page.Continue == "" {
				break
			}
		}
		counts[name] = of
	}
	return counts, nil
}

// queueByConditions returns the queue in which a pod most likely waits, empty if it does not wait.
func queueByConditions(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return "gated"
	}
	for _, condition := range pod.Status.Conditions {
		switch {
		case condition.Type != corev1.PodScheduled:
		case condition.Reason == corev1.PodReasonUnschedulable:
			return "unschedulable"
		case condition.Reason == v1alpha1.PodReasonPreEnqueueRejected:
			return "gated"
		}
	}
	return "active"
}
