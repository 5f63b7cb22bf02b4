// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodepreferavoidpods"
	"github.com/livesched/livesched/internal/scheduler/plugins/noderesources"
	"github.com/livesched/livesched/internal/scheduler/plugins/selectorspread"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/test/workload"
)

// world is a cluster in livesched's cache that changes at random, and a Decider with a fast path
// that decides in it.
type world struct {
	*generator
	t        testing.TB
	ctx      context.Context
	handle   handle
	cache    *cache.Cache
	snapshot *cache.Snapshot
	ours     *Decider
	profiles []Params
	// noTrackers leaves PodTopologySpread and InterPodAffinity to the scalar path.
	noTrackers bool

	nodes     []*corev1.Node
	templates []*corev1.Pod
	pods      []*corev1.Pod
	nodesMade int
	versions  int
	// plain makes pods use nothing that depends on other nodes.
	plain bool
	// even makes nodes that differ little, as in most clusters, so that groups of nodes exist.
	even bool
	// bare is an even world without images, because nodes with different images are in different
	// groups.
	bare bool
	// storage gives most pods volumes, and changes volumes often. roomy gives nodes high limits.
	storage, roomy bool
	seen           outcomes
	// volumeChanges gets the events of CSINodes and VolumeAttachments.
	volumeChanges *fastpath.VolumeChanges
	// devices are those of the profiles, or nil.
	devices fastpath.DeviceSource
	// outOfTree are more plugins that profiles may enable.
	outOfTree framework.Registry
	// parallelism is that of the profiles. With more than 1, the scalar path finds nodes in any
	// order, and so it draws differently among those with the highest total.
	parallelism int
	// closed holds by name the channel that is closed when the profile is built again.
	closed map[string]chan struct{}
}

// handle is kube-scheduler's, with our snapshot.
type handle struct {
	schedframework.Framework
	snapshot  *cache.Snapshot
	nominated nominator
}

func (h handle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }

// nominator holds the nominated pods by node.
type nominator map[string][]*corev1.Pod

func (n nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominator) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (n nominator) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      {}
func (n nominator) NominatedPodsForNode(name string) (out []fwk.PodInfo) {
	for _, pod := range n[name] {
		info, _ := schedframework.NewPodInfo(pod)
		out = append(out, info)
	}
	return out
}

// Nominations implements framework.Nominator. All nominated nodes may have changed.
func (n nominator) Nominations(pod *corev1.Pod, _ uint64) framework.NominationChanges {
	changes := framework.NominationChanges{All: true}
	for node := range n {
		number, own := n.number(node, pod, false), false
		for _, other := range n[node] {
			own = own || other.UID == pod.UID
		}
		if number != 0 {
			changes.Nodes = append(changes.Nodes, framework.NominatedNode{Name: node, Number: number})
		}
		if own {
			changes.Own = framework.NominatedNode{Name: node, Number: n.number(node, pod, true)}
		}
	}
	return changes
}

// number returns a number for the pods that are nominated to a node and count for a pod.
func (n nominator) number(node string, pod *corev1.Pod, itself bool) (number uint64) {
	hash := fnv.New64()
	for _, other := range n[node] {
		if (!itself || other.UID != pod.UID) && ptr.Deref(other.Spec.Priority, 0) >= ptr.Deref(pod.Spec.Priority, 0) {
			_, _ = fmt.Fprintf(hash, "%p ", other)
			number = hash.Sum64()
		}
	}
	return number
}

// samenessProfiles are the profiles that schedule the pods of a world.
var samenessProfiles = []func(*schedconfig.KubeSchedulerProfile){
	func(*schedconfig.KubeSchedulerProfile) {},
	variants["other weights and strategy"].change,
	func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.Filter.Disabled = []schedconfig.Plugin{{Name: "NodeResourcesFit"}}
		p.Plugins.PreFilter.Disabled = []schedconfig.Plugin{{Name: "NodeAffinity"}}
		p.Plugins.PreScore.Enabled = append(p.Plugins.PreScore.Enabled, schedconfig.Plugin{Name: "Parity"})
		p.Plugins.Filter.Enabled = append(p.Plugins.Filter.Enabled, schedconfig.Plugin{Name: "Parity"},
			schedconfig.Plugin{Name: nodelabel.Name})
		p.Plugins.Score.Enabled = append(p.Plugins.Score.Enabled, schedconfig.Plugin{Name: "Parity", Weight: 3},
			schedconfig.Plugin{Name: nodelabel.Name}, schedconfig.Plugin{Name: nodepreferavoidpods.Name, Weight: 10})
		p.PluginConfig = append(p.PluginConfig, schedconfig.PluginConfig{Name: nodelabel.Name, Args: &runtime.Unknown{
			ContentType: runtime.ContentTypeJSON,
			Raw:         []byte(`{"absentLabels":["drained"],"presentLabelsPreference":["disk"]}`),
		}})
		for i := range p.PluginConfig {
			switch args := p.PluginConfig[i].Args.(type) {
			case *schedconfig.NodeAffinityArgs:
				args.AddedAffinity = &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{
							{MatchExpressions: []corev1.NodeSelectorRequirement{
								{Key: "gone", Operator: corev1.NodeSelectorOpDoesNotExist}}},
						}},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
						{Weight: 30, Preference: corev1.NodeSelectorTerm{
							MatchExpressions: []corev1.NodeSelectorRequirement{
								{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}},
						}}},
				}
			case *schedconfig.PodTopologySpreadArgs:
				args.DefaultingType = schedconfig.ListDefaulting
				args.DefaultConstraints = []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: corev1.ScheduleAnyway},
					{MaxSkew: 5, TopologyKey: hostname, WhenUnsatisfiable: corev1.DoNotSchedule},
				}
			case *schedconfig.InterPodAffinityArgs:
				args.HardPodAffinityWeight = 0
				args.IgnorePreferredTermsOfExistingPods = true
			}
		}
	},
	// Bin packing as most write it: PreScore plugins run whose Score is disabled.
	func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.Score.Disabled = []schedconfig.Plugin{{Name: "*"}}
		p.Plugins.Score.Enabled = []schedconfig.Plugin{{Name: "NodeResourcesFit", Weight: 1}}
		for i := range p.PluginConfig {
			if args, ok := p.PluginConfig[i].Args.(*schedconfig.NodeResourcesFitArgs); ok {
				args.ScoringStrategy.Type = schedconfig.MostAllocated
			}
		}
	},
	func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled,
			schedconfig.Plugin{Name: "Whim", Weight: 2}, schedconfig.Plugin{Name: selectorspread.Name, Weight: 1},
			schedconfig.Plugin{Name: noderesources.MostAllocatedName, Weight: 1},
			schedconfig.Plugin{Name: noderesources.LimitsName, Weight: 1})
	},
	// A plugin that is not known only filters.
	func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.PreFilter.Enabled = append(p.Plugins.PreFilter.Enabled, schedconfig.Plugin{Name: "Whim"})
		p.Plugins.Filter.Enabled = append(p.Plugins.Filter.Enabled, schedconfig.Plugin{Name: "Whim"})
	},
}

// parity is an out-of-tree plugin that declares that it is node-local. It depends on the parity of
// the number of pods on a node and on an annotation of the pod, and normalizes scores in its own
// way.
type parity struct{}

func (parity) Name() string { return "Parity" }

func (parity) NodeLocalKey(pod *corev1.Pod) (string, bool) {
	return pod.Annotations["version"], pod.Labels["app"] != "batch"
}

func (parity) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if pod.Annotations["version"] == "1" {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

func (parity) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if pod.Annotations["version"] == "1" && len(node.GetPods())%7 == 6 {
		return fwk.NewStatus(fwk.Unschedulable, "odd")
	}
	return nil
}

func (parity) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return int64(len(node.GetPods())) - 3, nil
}

func (p parity) ScoreExtensions() fwk.ScoreExtensions { return p }

func (parity) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	for i := range scores {
		scores[i].Score = fwk.MaxScore - max(0, min(fwk.MaxScore, 10*scores[i].Score+int64(len(scores))))
	}
	return nil
}

func newWorld(t testing.TB, seed uint64, maxBytes int) *world {
	base := newOracle(quiet(t), t, setup{percentage: 100, parallelism: 2})
	w := &world{generator: newGenerator(seed, 0), t: t, ctx: base.ctx, cache: cache.New(),
		snapshot: cache.NewSnapshot(), seen: outcomes{}, parallelism: 2,
		volumeChanges: fastpath.NewVolumeChanges()}
	w.handle = handle{Framework: base.framework, snapshot: w.snapshot, nominated: nominator{}}
	w.ours = New(Config{Snapshot: w.snapshot, Engine: fastpath.New(w.snapshot, maxBytes)})
	return w
}

// build makes a new instance of every profile.
func (w *world) build() {
	w.profiles = nil
	for i, change := range samenessProfiles {
		w.profiles = append(w.profiles, w.profile(fmt.Sprintf("profile-%d", i), change))
	}
	w.profiles = append(w.profiles, w.profile("drawn", w.drawArgs))
	for i, change := range samenessProfiles { // they share rows with the first ones
		w.profiles = append(w.profiles, w.profile(fmt.Sprintf("twin-%d", i), change))
	}
}

// rebuild makes a new instance of one profile.
func (w *world) rebuild() {
	i := w.IntN(len(samenessProfiles))
	w.profiles[i] = w.profile(fmt.Sprintf("profile-%d", i), samenessProfiles[i])
}

// drawArgs draws the arguments of the plugins that depend on resources, and whether pods are spread
// by default.
func (w *world) drawArgs(p *schedconfig.KubeSchedulerProfile) {
	draw := func(most int64) (specs []schedconfig.ResourceSpec) {
		for _, name := range []string{"memory", "cpu", gpu, "ephemeral-storage"} {
			if len(specs) == 0 || w.chance(60) {
				specs = append(specs, schedconfig.ResourceSpec{Name: name, Weight: 1 + w.Int64N(most)})
			}
		}
		return specs
	}
	for i := range p.PluginConfig {
		switch args := p.PluginConfig[i].Args.(type) {
		case *schedconfig.NodeResourcesFitArgs:
			args.ScoringStrategy = &schedconfig.ScoringStrategy{
				Type: pick(w.generator,
					[]schedconfig.ScoringStrategyType{schedconfig.LeastAllocated, schedconfig.MostAllocated,
						schedconfig.RequestedToCapacityRatio}),
				Resources: draw(20),
			}
			if args.ScoringStrategy.Type == schedconfig.RequestedToCapacityRatio {
				args.ScoringStrategy.RequestedToCapacityRatio = &schedconfig.RequestedToCapacityRatioParam{
					Shape: []schedconfig.UtilizationShapePoint{
						{Utilization: int32(w.IntN(50)), Score: int32(w.IntN(11))},
						{Utilization: int32(50 + w.IntN(51)), Score: int32(w.IntN(11))},
					}}
			}
			if w.chance(30) {
				args.IgnoredResources = []string{gpu}
			}
		case *schedconfig.NodeResourcesBalancedAllocationArgs:
			args.Resources = draw(1)
		case *schedconfig.PodTopologySpreadArgs:
			if w.chance(50) { // which also reject pods that name their node
				args.DefaultingType = schedconfig.ListDefaulting
				args.DefaultConstraints = []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule}}
			}
		}
	}
}

// gpu is the extended resource that some nodes of a generator have.
const gpu = "example.com/gpu"

func (w *world) profile(name string, change func(*schedconfig.KubeSchedulerProfile)) Params {
	w.t.Helper()
	cfg, err := latest.Default()
	if err != nil {
		w.t.Fatal(err)
	}
	profile := cfg.Profiles[0]
	change(&profile)
	registry := frameworkplugins.NewInTreeRegistry()
	w.must(registry.Merge(framework.Registry{
		nodelabel.Name: nodelabel.New, nodepreferavoidpods.Name: nodepreferavoidpods.New,
		selectorspread.Name:             selectorspread.New,
		noderesources.MostAllocatedName: noderesources.NewMostAllocated,
		noderesources.LimitsName:        noderesources.NewLimits,
		"Whim": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return whim{}, nil
		},
		"Parity": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return parity{}, nil },
	}))
	w.must(registry.Merge(w.outOfTree))
	args := map[string]runtime.Object{}
	for _, pc := range profile.PluginConfig {
		args[pc.Name] = pc.Args
	}
	instances := map[string]fwk.Plugin{}
	for name := range framework.Needed(profile.Plugins) {
		if instances[name], err = registry[name](w.ctx, args[name], w.handle); err != nil {
			w.t.Fatal(err)
		}
	}
	plugins, err := framework.Expand(profile.Plugins, instances)
	if err != nil {
		w.t.Fatal(err)
	}
	p := Params{Framework: framework.New(framework.Config{
		ProfileName: name, Plugins: plugins, Args: args, Snapshot: w.snapshot,
		Parallelizer: framework.NewParallelizer(w.parallelism), Nominator: &w.handle.nominated,
	})}
	planned := fastpath.PlanConfig{
		Framework: p.Framework, Snapshot: w.snapshot,
		Features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate), Devices: w.devices,
	}
	if !w.noTrackers {
		planned.Informers, planned.Volumes = w.handle.SharedInformerFactory(), w.volumeChanges
	}
	closed := make(chan struct{})
	if old, ok := w.closed[name]; ok {
		close(old)
	}
	if w.closed == nil {
		w.closed = map[string]chan struct{}{}
	}
	w.closed[name], planned.Closed = closed, closed
	p.FastPath = fastpath.NewPlan(planned)
	return p
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) addNode() {
	node := w.generator.nodes(1)[0]
	w.nodesMade++
	node.Name = fmt.Sprintf("node-%03d", w.nodesMade)
	node.UID = types.UID(node.Name)
	if _, ok := node.Labels[hostname]; ok {
		node.Labels[hostname] = node.Name
	}
	node.Labels[rack] = fmt.Sprintf("rack-%d", w.nodesMade/4)
	if w.even {
		node.Labels[hostname], node.Labels[zone] = node.Name, fmt.Sprintf("zone-%d", w.nodesMade%3)
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods: resource.MustParse("20"),
		}
	}
	if w.bare {
		node.Status.Images = nil
	}
	if at, ok := node.Labels[zone]; ok && w.chance(70) {
		node.Labels[driverZone] = at
	}
	w.nodes = append(w.nodes, node)
	w.cache.AddNode(klog.FromContext(w.ctx), node)
	if w.chance(70) {
		w.addLimit(node.Name)
	}
}

// changeNode changes something that plugins depend on, or something that they do not.
func (w *world) changeNode() {
	i := w.IntN(len(w.nodes))
	node := w.nodes[i].DeepCopy()
	fresh := w.generator.nodes(1)[0]
	kinds := 8
	if w.even {
		kinds = 9
	}
	switch w.IntN(kinds) {
	case 0:
		node.Spec.Taints = fresh.Spec.Taints
	case 1:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	case 2:
		node.Status.Allocatable = fresh.Status.Allocatable
	case 3:
		if !w.bare {
			node.Status.Images = fresh.Status.Images
		}
	case 4:
		node.Labels[zone] = fmt.Sprintf("zone-%d", w.IntN(4))
	case 5:
		node.Labels["disk"] = pick(w.generator, disks)
		if w.chance(30) {
			node.Labels[rack] = pick(w.generator, w.nodes).Labels[rack]
		}
	case 6:
		if _, ok := node.Labels["drained"]; ok {
			delete(node.Labels, "drained")
		} else if w.chance(30) {
			node.Labels["drained"] = ""
		}
	case 7:
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Noise"})
	case 8:
		w.rename(node)
	}
	w.cache.UpdateNode(klog.FromContext(w.ctx), w.nodes[i], node)
	w.nodes[i] = node
}

// rename gives a node the hostname of another, or restores the hostnames of all.
func (w *world) rename(node *corev1.Node) {
	if w.chance(50) {
		node.Labels[hostname] = pick(w.generator, w.nodes).Name
		return
	}
	node.Labels[hostname] = node.Name
	for i, other := range w.nodes {
		if name, ok := other.Labels[hostname]; ok && name != other.Name && other.Name != node.Name {
			restored := other.DeepCopy()
			restored.Labels[hostname] = other.Name
			w.cache.UpdateNode(klog.FromContext(w.ctx), other, restored)
			w.nodes[i] = restored
		}
	}
}

func (w *world) removeNode() {
	i := w.IntN(len(w.nodes))
	gone := w.nodes[i]
	w.nodes = slices.Delete(w.nodes, i, i+1)
	w.must(w.cache.RemoveNode(klog.FromContext(w.ctx), gone))
	w.pods = slices.DeleteFunc(w.pods, func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != gone.Name {
			return false
		}
		w.must(w.cache.RemovePod(klog.FromContext(w.ctx), pod))
		return true
	})
}

func (w *world) setNamespace(namespace *corev1.Namespace) {
	w.versions++
	namespace.ResourceVersion = strconv.Itoa(w.versions)
	w.must(w.handle.SharedInformerFactory().Core().V1().Namespaces().Informer().GetIndexer().Update(namespace))
}

// changeNamespace moves a namespace to the other tier, or takes the tier away.
func (w *world) changeNamespace() {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pick(w.generator, namespaces)}}
	if tier := pick(w.generator, []string{"front", "back", ""}); tier != "" {
		namespace.Labels = map[string]string{"tier": tier}
	}
	w.setNamespace(namespace)
}

// changeServices makes other services.
func (w *world) changeServices() {
	services := w.handle.SharedInformerFactory().Core().V1().Services().Informer().GetIndexer()
	for _, old := range services.List() {
		w.must(services.Delete(old))
	}
	for _, service := range w.services() {
		w.versions++
		if w.chance(5) {
			service.Spec.Selector[extraLabel(w.IntN(extraLabels))] = "x"
		}
		service.ResourceVersion = strconv.Itoa(w.versions)
		w.must(services.Add(service))
	}
}

func (w *world) template() *corev1.Pod {
	pod := w.pod(w.nodes)
	if w.plain {
		pod.Spec.TopologySpreadConstraints = nil
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: pod.Spec.Affinity.NodeAffinity}
	}
	if w.chance(15) {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(w.IntN(100)),
			resource.DecimalSI)}
	}
	if w.chance(15) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceMemory: *resource.NewQuantity(w.Int64N(2<<30), resource.BinarySI),
		}}
	}
	if w.chance(15) {
		sidecar := w.container(8)
		sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	}
	if w.chance(20) { // as DaemonSets make them
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
						Values: []string{pick(w.generator, w.nodes).Name}},
				}}},
			}}
	}
	w.own(pod)
	w.askMore(pod)
	claims := 20
	if w.even { // pods with claims have no groups
		claims = 5
	}
	if w.storage {
		claims = 90
	}
	if w.chance(claims) {
		// The key of a claim includes the pod's namespace.
		pod.Annotations = map[string]string{volumeKey: string(pick(w.generator, volumeKinds))}
		pod.Namespace = namespaces[0]
	}
	if w.chance(20) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(fmt.Sprint(1 + w.IntN(6)))}
	}
	if w.chance(5) {
		pod.Spec.Containers = []corev1.Container{{Name: "besteffort", Image: pick(w.generator, images)}}
	}
	if w.chance(15) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "model", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: pick(w.generator, images)},
		}})
	}
	if w.chance(3) { // then only what the status reports counts, which is nothing before the pod runs
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonInfeasible}}
	}
	return pod
}

// another returns a pod like one of the templates.
func (w *world) another() *corev1.Pod {
	pod := pick(w.generator, w.templates).DeepCopy()
	w.made++
	pod.Name = fmt.Sprintf("pod-%06d", w.made)
	pod.UID = types.UID(pod.Name)
	if requests := pod.Spec.Containers[0].Resources.Requests; requests != nil && w.chance(10) {
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(w.IntN(900)), resource.DecimalSI)
	}
	if w.chance(30) {
		pod.Labels["unique"] = pod.Name // as the pods of a Job have
	}
	w.labelMore(pod)
	// Every pod gets these from its service account, under a name of its own.
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "kube-api-access-" + pod.Name, VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{},
		}})
	w.addVolumes(pod)
	return pod
}

// place puts a pod on a node, as if it were bound there by another scheduler, or assumed.
func (w *world) place(pod *corev1.Pod, node string, class cache.Class) {
	placed := *pod
	placed.Spec.NodeName = node
	w.pods = append(w.pods, &placed)
	logger := klog.FromContext(w.ctx)
	if class.ID != 0 && w.chance(80) {
		w.must(w.cache.AssumePodOfClass(logger, &placed, class))
		return
	}
	w.must(w.cache.AddPod(logger, &placed))
}

func (w *world) removePod() {
	i := w.IntN(len(w.pods))
	w.must(w.cache.RemovePod(klog.FromContext(w.ctx), w.pods[i]))
	w.pods = slices.Delete(w.pods, i, i+1)
}

// disturb changes something in the cluster.
func (w *world) disturb() {
	logger := klog.FromContext(w.ctx)
	if len(w.pods) > 8*len(w.nodes) { // full: half of them end
		for range len(w.pods) / 2 {
			w.removePod()
		}
	}
	switch n := w.IntN(100); {
	case n < 25 && len(w.pods) > 0:
		w.removePod()
	case n < 40 && len(w.pods) > 0: // the pod is confirmed, relabelled, or being deleted
		i := w.IntN(len(w.pods))
		pod := w.pods[i].DeepCopy()
		switch w.IntN(4) {
		case 0:
			pod.Status.Phase = corev1.PodRunning
		case 1:
			pod.Labels[pick(w.generator, []string{"app", extraLabel(w.IntN(extraLabels))})] = pick(w.generator, apps)
		case 2:
			pod.DeletionTimestamp = &metav1.Time{}
		case 3: // as the API server does when the pod is bound
			pod.Labels[zone] = fmt.Sprintf("zone-%d", w.IntN(3))
		}
		w.must(w.cache.UpdatePod(logger, w.pods[i], pod))
		w.pods[i] = pod
	case n < 60:
		w.place(w.another(), pick(w.generator, w.nodes).Name, cache.Class{})
	case n < 80:
		w.changeNode()
	case n < 85:
		w.addNode()
	case n < 88 && len(w.nodes) > 5:
		w.removeNode()
	case n < 90:
		w.templates[w.IntN(len(w.templates))] = w.template()
	case n < 91:
		if w.even && w.chance(80) {
			return
		}
		w.seen["reloads"]++
		if w.chance(30) {
			w.rebuild()
			return
		}
		w.build()
	case n < 92:
		w.changeNamespace()
	case n < 93:
		if w.chance(30) {
			w.changeServices()
		}
		if w.chance(50) {
			w.changeStorage()
		}
		w.changeController()
	case n < 95 && (len(w.handle.nominated) > 0 || w.chance(30)):
		w.nominate()
	}
}

// nominate nominates pods for nodes, or removes one or all nominations.
func (w *world) nominate() {
	if len(w.handle.nominated) > 0 {
		if w.chance(50) {
			delete(w.handle.nominated, pick(w.generator, slices.Sorted(maps.Keys(w.handle.nominated))))
			return
		}
		if w.chance(50) {
			clear(w.handle.nominated)
			return
		}
	}
	for range 1 + w.IntN(4) {
		node := pick(w.generator, w.nodes).Name
		w.handle.nominated[node] = append(w.handle.nominated[node], w.another())
	}
}

// nominateItself nominates a pod that is about to be decided about. The status may not show it yet,
// or name a node that does not exist.
func (w *world) nominateItself(pod *corev1.Pod) {
	node := pick(w.generator, w.nodes).Name
	if w.chance(80) {
		w.handle.nominated[node] = append(w.handle.nominated[node], pod)
	}
	if w.chance(5) {
		node = "missing"
	}
	if w.chance(80) {
		pod.Status.NominatedNodeName = node
		w.seen["nominated itself"]++
	}
}

// step decides about a pod and, if it fits nowhere, about another like it: between the two, nodes
// do not change, but something else may.
func (w *world) step(where string) {
	w.t.Helper()
	pod, p := w.another(), pick(w.generator, w.profiles)
	if w.chance(10) {
		w.nominateItself(pod)
		if w.chance(80) {
			defer clear(w.handle.nominated)
		}
	}
	if w.even && w.chance(70) {
		p = w.profiles[0]
	}
	switch reason := w.decide(where, p, pod); {
	case reason != fastpath.NoFit:
		return
	case w.chance(50):
		for range min(5, len(w.pods)) { // so that the cluster is not full forever
			w.removePod()
		}
		return
	}
	switch w.IntN(8) {
	case 0:
		w.nominate()
		defer w.nominate()
	case 1:
		w.changeNamespace()
	case 2:
		w.changeServices()
	}
	w.made++
	pod.Name = fmt.Sprintf("pod-%06d", w.made)
	pod.UID = types.UID(pod.Name)
	w.decide(where+", again", p, pod)
}

// decide decides about a pod on both paths, compares the outcomes, and places the pod if a node
// fits.
func (w *world) decide(where string, p Params, pod *corev1.Pod) fastpath.Reason {
	w.t.Helper()
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	state := schedframework.NewCycleState()
	fast := w.ours.tryFast(w.ctx, p, state, pod)
	reason := fast.reason
	w.seen["path "+string(reason)]++
	switch {
	case fast.Uncached != fastpath.None:
		w.seen["rest "+string(fast.Uncached)]++
	case reason == fastpath.None && podfields.UsesVolumeClaims(pod):
		w.seen["claims without a search"]++
	}
	if reason == fastpath.None && podfields.UsesVolumeClaims(pod) && len(w.handle.nominated) > 0 {
		w.seen["claims beside nominated pods"]++
	}
	if reason == fastpath.None && fast.Feasible > fast.Examined() {
		w.seen["looked at less than fit"]++
	}
	forScalar := schedframework.NewCycleState()
	if reason != fastpath.None {
		forScalar = state // the fast path has left it as new
	}
	scalar := w.ours.newScalar(request{p, forScalar, pod})
	want, err := scalar.decide(w.ctx)
	if reason == fastpath.NoFit {
		unfit, _ := fast.Unfit()
		known, examined := unfit.Explained(), fast.Examined()
		if err := compareUnfit(w.ctx, unfit, scalar, err); err != nil {
			w.t.Fatalf("%s: pod %s, profile %s: %v", where, pod.Name, p.Framework.ProfileName(), err)
		}
		if known {
			w.seen["known not to fit"]++
			if len(w.handle.nominated) > 0 {
				w.seen["known not to fit beside nominated pods"]++
			}
		}
		if fast.Examined() > examined {
			w.seen["not to fit after changes"]++
		}
		if !known || w.chance(30) {
			keepExplanation(w.ctx, unfit, forScalar, err)
		}
	}
	if reason != fastpath.None {
		if err == nil && w.chance(30) {
			w.place(pod, want.SuggestedHost, cache.Class{})
		}
		return reason
	}
	if err != nil {
		w.t.Fatalf("%s: %v", where, err)
	}
	if len(w.handle.nominated) > 0 {
		w.seen["beside nominated pods"]++
	}
	if err := w.ours.compare(w.ctx, fast.Attempt, scalar, nil); err != nil {
		w.t.Fatalf("%s: pod %s, profile %s: %v", where, pod.Name, p.Framework.ProfileName(), err)
	}
	if fast.Evaluated != want.EvaluatedNodes || fast.Feasible != want.FeasibleNodes ||
		fast.Placement.Partial != want.Partial {
		w.t.Fatalf("%s: evaluated and feasible: fast %d, %d, scalar %d, %d", where,
			fast.Evaluated, fast.Feasible, want.EvaluatedNodes, want.FeasibleNodes)
	}
	if best := scalar.bestNames(); !best.Has(fast.NodeName) {
		w.t.Fatalf("%s: chose %s, the best are %v", where, fast.NodeName, sets.List(best))
	}
	w.noteClass(pod, fast.Class.Like.Pod)
	w.expectReserved(where, p, state, forScalar, pod, fast.NodeName)
	if fast.Uncached != fastpath.None {
		w.decideLate(where, p, pod, scalar, forScalar)
	}
	w.place(pod, fast.NodeName, fast.Class)
	return reason
}

// decideLate decides about a pod by running the uncached plugins on the best nodes first, where
// that is possible, and compares the outcome with that of the scalar path.
func (w *world) decideLate(where string, p Params, pod *corev1.Pod, scalar *scalarAttempt, forScalar fwk.CycleState) {
	w.t.Helper()
	fatal := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s, best first: pod %s, profile %s: %s", where, pod.Name, p.Framework.ProfileName(),
			fmt.Sprintf(format, args...))
	}
	r := request{p, schedframework.NewCycleState(), pod}
	fit, ok := w.ours.attemptFast(w.ctx, r, w.ours.draw).Fit()
	if !ok {
		fatal("no node was found")
	}
	late, ok := fit.Take(w.ctx, w.ours.draw(fit.Len(), fit.NumPods))
	if best := scalar.bestNames(); !ok || !best.HasAll(fit.Names()...) || !best.Has(late.NodeName) {
		fatal("chose %s of %v, the best are %v", late.NodeName, fit.Names(), sets.List(best))
	}
	w.expectReserved(where, p, r.state, forScalar, pod, late.NodeName)
	if !late.Partial && late.Feasible != len(scalar.feasible) {
		fatal("%d nodes fit, and the decision is not partial: %+v", len(scalar.feasible), late)
	}
	if !late.Partial || late.NodeName == pod.Status.NominatedNodeName {
		return
	}
	w.seen["best first"]++
	totals := map[string]int64{}
	for _, node := range scalar.feasible {
		totals[node.Node().Name] = late.Total
	}
	for i := range scalar.scores {
		totals[scalar.scores[i].Name] = scalar.scores[i].TotalScore
	}
	top, err := fit.Top(w.ctx, 3)
	if err != nil || len(top) < min(3, len(totals)) || top[0].Name != late.NodeName || top[0].TotalScore != late.Total {
		fatal("of %v, the first are %v (%v)", totals, top, err)
	}
	for i, node := range top {
		if total, ok := totals[node.Name]; !ok || total != node.TotalScore || i > 0 && total > top[i-1].TotalScore {
			fatal("of %v, the first are %v", totals, top)
		}
	}
	if all, err := fit.Totals(w.ctx); err != nil || len(all) < len(top) || all[late.NodeName] != late.Total ||
		!fit.Fits(late.NodeName) || !fit.IsBest(late.NodeName) {
		fatal("the totals are %v (%v)", all, err)
	}
}

// expectReserved reserves the pod's node with the state that each of the two paths has left.
func (w *world) expectReserved(where string, p Params, fast, scalar fwk.CycleState, pod *corev1.Pod, node string) {
	w.t.Helper()
	reserve := func(state fwk.CycleState) (reserved, preFlight fwk.Code) {
		reserved = p.Framework.RunReservePluginsReserve(w.ctx, state, pod, node).Code()
		preFlight = p.Framework.RunPreBindPreFlights(w.ctx, state, pod, node).Code()
		p.Framework.RunReservePluginsUnreserve(w.ctx, state, pod, node)
		return reserved, preFlight
	}
	gotReserved, gotPreFlight := reserve(fast)
	if wantReserved, wantPreFlight := reserve(scalar); gotReserved != wantReserved || gotPreFlight != wantPreFlight {
		w.t.Fatalf(
			"%s: reserving %s gives %s and %s by the state of the fast path, %s and %s by that of the scalar path",
			where, node,
			gotReserved, gotPreFlight, wantReserved, wantPreFlight)
	}
	if gotPreFlight == fwk.Success {
		w.seen["reserved for PreBind"]++
	}
}

// populate adds nodes and other objects.
func (w *world) populate(nodes int) {
	for range nodes {
		w.addNode()
	}
	for _, namespace := range w.namespaces() {
		w.setNamespace(namespace)
	}
	w.changeServices()
	w.changeController()
	w.addStorage()
}

func (w *world) run(where string, steps int) {
	nodes := 5 + w.IntN(60)
	if w.even {
		nodes += 80
	}
	w.populate(nodes)
	templates := 25
	if w.even {
		templates = 6
	}
	for range templates {
		w.templates = append(w.templates, w.template())
	}
	w.build()
	for i := range steps {
		for w.chance(40) {
			w.disturb()
		}
		for w.storage && w.chance(40) {
			w.changeStorage()
		}
		w.step(fmt.Sprintf("%s, step %d", where, i))
	}
}

func TestFastPathMatchesScalarPath(t *testing.T) {
	const worlds, steps = 20, 800
	total := outcomes{}
	for i := range uint64(worlds) {
		w := newWorld(t, seed+i, []int{0, 60_000}[i%2])
		w.rarity = 1 + int(i%3)*10
		w.plain, w.noTrackers = i%5 == 0, i%10 == 0
		w.run(fmt.Sprintf("world %d", seed+i), steps)
		for key, n := range w.seen {
			total[key] += n
		}
	}
	t.Logf("%d decisions:%s", worlds*steps, total)
	if total["known not to fit"] < 100 {
		t.Errorf("only %d pods were known not to fit", total["known not to fit"])
	}
	if total["beside nominated pods"] < 500 {
		t.Errorf("only %d decisions were made beside nominated pods", total["beside nominated pods"])
	}
	if total["nominated itself"] < 100 {
		t.Errorf("only %d pods were nominated themselves", total["nominated itself"])
	}
	if total["of a class with other labels"] < worlds*steps/20 {
		t.Errorf("only %d decisions were about pods of a class with other labels",
			total["of a class with other labels"])
	}
	if total["path "] < worlds*steps/4 {
		t.Errorf("only %d decisions took the fast path", total["path "])
	}
	if n := total["best first"]; n < 50 {
		t.Errorf("only %d decisions asked plugins about the best nodes first", n)
	}
	for _, reason := range []fastpath.Reason{fastpath.Volumes, fastpath.UnknownPlugin} {
		if n := total["rest "+string(reason)]; n < 300 {
			t.Errorf("plugins were asked because of %q in %d decisions only", reason, n)
		}
	}
	if total["reserved for PreBind"] < 50 {
		t.Errorf("only %d decisions left something for PreBind", total["reserved for PreBind"])
	}
	for _, reason := range []fastpath.Reason{fastpath.NoFit, fastpath.NodeNames, fastpath.Failed} {
		if total["path "+string(reason)] == 0 {
			t.Errorf("no decision was about %q; there were %v", reason, slices.Sorted(maps.Keys(total)))
		}
	}
}

func TestFastPathMatchesScalarPathInTheLongRun(t *testing.T) {
	const steps = 10_000
	w := newWorld(t, seed, 150_000)
	w.run("the long run", steps)
	t.Logf("%d decisions:%s", steps, w.seen)
	if w.seen["path "] < steps/3 || w.seen["reloads"] < steps/300 {
		t.Errorf("only %d decisions took the fast path, and there were %d reloads", w.seen["path "], w.seen["reloads"])
	}
}

// TestDecisionsByGroupsMatchTheScalarPath uses clusters in which many nodes are equal, and
// classes that occur often enough to have groups.
func TestDecisionsByGroupsMatchTheScalarPath(t *testing.T) {
	const worlds, steps = 6, 600
	total := outcomes{}
	for i := range uint64(worlds) {
		w := newWorld(t, seed+100+i, []int{0, 0, 200_000}[i%3])
		w.even, w.bare = true, i%3 != 1
		w.run(fmt.Sprintf("world %d", seed+100+i), steps)
		for key, n := range w.seen {
			total[key] += n
		}
	}
	t.Logf("%d decisions:%s", worlds*steps, total)
	if total["looked at less than fit"] < worlds*steps/10 {
		t.Errorf("only %d decisions looked at few nodes", total["looked at less than fit"])
	}
}

// TestDecisionsAboutVolumesMatchTheScalarPath uses clusters in which little but volumes keeps pods
// off nodes.
func TestDecisionsAboutVolumesMatchTheScalarPath(t *testing.T) {
	const worlds, steps = 12, 500
	total := outcomes{}
	for i := range uint64(worlds) {
		w := newWorld(t, seed+200+i, 0)
		w.storage, w.rarity, w.plain = true, 20, i%2 == 0
		w.even, w.bare, w.roomy = i%3 == 0, true, i%4 < 2
		w.run(fmt.Sprintf("world %d", seed+200+i), steps)
		for key, n := range w.seen {
			total[key] += n
		}
	}
	t.Logf("%d decisions:%s", worlds*steps, total)
	for path, least := range map[string]int{
		"path ":                        worlds * steps / 2,
		"rest volumes":                 worlds * steps / 4,
		"claims without a search":      worlds * steps / 60,
		"claims beside nominated pods": worlds * steps / 10,
	} {
		if total[path] < least {
			t.Errorf("%q: only %d decisions, want at least %d", path, total[path], least)
		}
	}
}

func TestPodsWithoutTermsExcludePodsWithAntiAffinityToThem(t *testing.T) {
	w := newWorld(t, seed, 0)
	for i := range 3 {
		w.cache.AddNode(klog.FromContext(w.ctx), workload.Node(i))
	}
	p := w.profile("mine", func(*schedconfig.KubeSchedulerProfile) {})
	decide := func(want int) {
		t.Helper()
		w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
		w.made++
		pod := podOf("basic", 0)
		pod.Labels = map[string]string{"app": "anti-0"}
		pod.Name, pod.UID = fmt.Sprint(w.made), types.UID(fmt.Sprint(w.made))
		got := w.ours.tryFast(w.ctx, p, schedframework.NewCycleState(), pod)
		if got.reason != fastpath.None || got.Feasible != want {
			t.Fatalf("%d nodes fit, want %d (%s)", got.Feasible, want, got.reason)
		}
	}
	decide(3)
	guard := podOf("anti", 0)
	guard.Spec.NodeName = workload.NodeName(1)
	w.must(w.cache.AddPod(klog.FromContext(w.ctx), guard))
	decide(2)
	w.must(w.cache.RemovePod(klog.FromContext(w.ctx), guard))
	decide(3)
}
