// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// The GPUs are devices of a driver, and claims share their capacity, 1000 each.
const (
	driver                                  = "gpu.example.com"
	capacity       resourcev1.QualifiedName = "milli"
	modelAttribute resourcev1.QualifiedName = "model"
	schedulerName                           = "bench"
)

// cluster is a livesched with nodes and claims, but without an API server. One goroutine uses it.
type cluster struct {
	*sidebyside.Livesched
	ctx    context.Context
	cancel context.CancelFunc
	// version is the latest resource version.
	version int
}

// newCluster returns a cluster with the machines of a trace, and with the claims of these jobs.
func newCluster(ctx context.Context, policy string, path sidebyside.Path, seed uint64, t *trace,
	jobs []job) (_ *cluster, err error) {
	var claims []runtime.Object
	for i := range jobs {
		if jobs[i].gpus > 0 {
			claims = append(claims, claimOf(i, &jobs[i]))
		}
	}
	profile, err := profileOf(policy, t)
	if err != nil {
		return nil, err
	}
	schedmetrics.Register()
	c := &cluster{version: 1}
	c.ctx, c.cancel = context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	defer func() {
		if err != nil {
			c.cancel()
		}
	}()
	all := sidebyside.NewObjectsOf(claims...)
	c.Livesched, err = sidebyside.NewLivesched(c.ctx, all, &sidebyside.Configuration{Parallelism: 16, Profile: profile},
		path, registry(seed))
	if err != nil {
		return nil, err
	}
	class := objects.DeviceClass(driver)
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == %q", driver)}}}
	if err := all.Put(class); err != nil {
		return nil, err
	}
	for i := range t.machines {
		node, slice := t.machines[i].objects(i)
		c.Cache.AddNode(logr.Discard(), node)
		if err := all.Put(slice); err != nil {
			return nil, err
		}
	}
	go all.Resource().V1().ResourceClaims().Informer().RunWithContext(c.ctx)
	for _, claim := range claims {
		for { // the informer delivers each claim within milliseconds
			if _, err := c.Devices.ResourceClaims().Get(metav1.NamespaceDefault,
				claim.(*resourcev1.ResourceClaim).Name); err == nil {
				break
			}
			if c.ctx.Err() != nil {
				return nil, context.Cause(c.ctx)
			}
		}
	}
	return c, nil
}

func (c *cluster) close() {
	c.cancel()
	c.Close()
}

// objects returns the node of the i-th machine, and the slice with its GPUs.
func (m *machine) objects(i int) (*corev1.Node, *resourcev1.ResourceSlice) {
	name := fmt.Sprintf("node-%04d", i)
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(m.milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(m.memoryMiB<<20, resource.BinarySI),
		corev1.ResourcePods:   resource.MustParse("1000"),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable}}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1}}}
	for gpu := range m.gpus {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprint("gpu-", gpu), AllowMultipleAllocations: ptr.To(true),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				modelAttribute: {StringValue: &m.model}},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				capacity: {Value: *resource.NewQuantity(whole, resource.DecimalSI)}}})
	}
	return node, slice
}

func podName(i int) string { return fmt.Sprintf("pod-%05d", i) }

// claimOf returns the claim of the i-th job.
func claimOf(i int, j *job) *resourcev1.ResourceClaim {
	claim := objects.DeviceClaim(podName(i), driver)
	claim.UID, claim.ResourceVersion = types.UID(claim.Name), "1"
	request := claim.Spec.Devices.Requests[0].Exactly
	request.AllocationMode, request.Count = resourcev1.DeviceAllocationModeExactCount, j.gpus
	request.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
		capacity: *resource.NewQuantity(j.milliGPU, resource.DecimalSI)}}
	if j.models != "" {
		models := strings.Split(j.models, "|")
		for i := range models {
			models[i] = strconv.Quote(models[i])
		}
		request.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf(
			"device.attributes[%q].%s in [%s]", driver, modelAttribute, strings.Join(models, ", "))}}}
	}
	return claim
}

// podOf returns the pod of the i-th job.
func podOf(i int, j *job) *corev1.Pod {
	name := podName(i)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name,
		UID: types.UID(name)}, Spec: corev1.PodSpec{SchedulerName: schedulerName, Containers: []corev1.Container{{
		Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(j.milliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(j.memoryMiB<<20, resource.BinarySI),
		}}}}}}
	if j.gpus > 0 {
		objects.UsingDevices(name)(pod)
	}
	return pod
}

// place decides about the pod of the i-th job and binds it. placed is false if it fits nowhere.
func (c *cluster) place(i int, j *job) (placed bool, err error) {
	pod := podOf(i, j)
	d := c.Decide(pod)
	var unfit *schedframework.FitError
	switch {
	case errors.As(d.Err, &unfit):
		return false, nil
	case d.Err != nil:
		return false, d.Err
	}
	return true, c.bind(pod, d)
}

// bind does what the scheduling loop and the binding cycle do after a decision.
func (c *cluster) bind(pod *corev1.Pod, d sidebyside.Decision) error {
	status := c.Profile.Framework.RunReservePluginsReserve(c.ctx, d.State, pod, d.Host)
	if !status.IsSuccess() {
		return status.AsError()
	}
	claims := c.Devices.ResourceClaims()
	for _, ref := range pod.Spec.ResourceClaims {
		claim, err := claims.Get(pod.Namespace, *ref.ResourceClaimName)
		if err != nil {
			return err
		}
		claim = claim.DeepCopy()
		c.version++
		claim.ResourceVersion = strconv.Itoa(c.version)
		claim.Status.Allocation = claims.GetPendingAllocation(claim.UID)
		if err := claims.AssumeClaimAfterAPICall(claim); err != nil {
			return err
		}
		claims.MaybeRemoveClaimPendingAllocation(claim.UID, true)
	}
	pod.Spec.NodeName = d.Host
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	return c.Cache.AssumePod(logr.Discard(), info)
}
