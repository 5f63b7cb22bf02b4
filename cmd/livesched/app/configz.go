// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfig "k8s.io/component-base/config"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// configzProfile has the settings of a profile that a KubeSchedulerConfiguration does not have, or
// has only once for all profiles.
type configzProfile struct {
	SchedulerName string `json:"schedulerName"`
	// Profile is the name of the object. Revision is active; it was built from Generation at Built.
	Profile    string      `json:"profile"`
	Generation int64       `json:"generation"`
	Revision   string      `json:"revision"`
	Built      metav1.Time `json:"built"`
	// Policy is the policy that it was built on, with generation 0 for the built-in defaults.
	Policy           string `json:"policy"`
	PolicyGeneration int64  `json:"policyGeneration"`

	PodInitialBackoff         metav1.Duration `json:"podInitialBackoff"`
	PodMaxBackoff             metav1.Duration `json:"podMaxBackoff"`
	PodMaxInUnschedulablePods metav1.Duration `json:"podMaxInUnschedulablePods"`
	PercentageOfNodesToScore  int32           `json:"percentageOfNodesToScore"`
	Parallelism               int32           `json:"parallelism"`

	// Canary is set for a revision that is rolled out, beside the entry of the stable one. The
	// KubeSchedulerConfiguration has the stable one.
	Canary *configzCanary `json:"canary,omitempty"`
}

type configzCanary struct {
	// Weight is the percentage of owners whose pods the revision decides.
	Weight int `json:"weight"`
}

// configz serves the active configuration at the time of the request, in the form of
// kube-scheduler's /configz, on every replica.
func configz(sched *scheduler.Scheduler, o *Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, err := writeConfigz(sched, o)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(text)
	})
}

func writeConfigz(sched *scheduler.Scheduler, o *Options) ([]byte, error) {
	process, err := o.componentConfig()
	if err != nil {
		return nil, err
	}
	var running []*resolve.Profile
	shown := []configzProfile{}
	profiles := sched.Store().Current()
	for p := range profiles.Deciding() {
		c := p.Config
		var canary *configzCanary
		if p.IsCanary() {
			_, share := profiles.Canary(c.SchedulerName)
			canary = &configzCanary{Weight: share.Percent()}
		} else {
			running = append(running, c)
		}
		shown = append(shown, configzProfile{
			SchedulerName: c.SchedulerName, Profile: c.Name, Generation: c.Generation, Revision: c.Revision,
			Built:  metav1.NewTime(p.Built.UTC().Truncate(time.Second)),
			Policy: c.PolicyName, PolicyGeneration: c.PolicyGeneration,
			PodInitialBackoff:         metav1.Duration{Duration: c.PodInitialBackoff},
			PodMaxBackoff:             metav1.Duration{Duration: c.PodMaxBackoff},
			PodMaxInUnschedulablePods: metav1.Duration{Duration: c.PodMaxInUnschedulablePods},
			PercentageOfNodesToScore:  c.PercentageOfNodesToScore, Parallelism: c.Parallelism,
			Canary: canary,
		})
	}
	documents, err := resolve.ComponentConfigs(process, running)
	if err != nil {
		return nil, err
	}
	all := map[string]any{"livesched": map[string]any{"profiles": shown}}
	for name, document := range documents {
		all[name] = document
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(all)
	return text.Bytes(), err
}

// componentConfig returns the flags' settings as a configuration of kube-scheduler.
func (o *Options) componentConfig() (*schedconfig.KubeSchedulerConfiguration, error) {
	c, err := latest.Default()
	if err != nil {
		return nil, err
	}
	c.LeaderElection = componentbaseconfig.LeaderElectionConfiguration{
		LeaderElect:   o.LeaderElect,
		LeaseDuration: metav1.Duration{Duration: o.LeaseDuration},
		RenewDeadline: metav1.Duration{Duration: o.RenewDeadline},
		RetryPeriod:   metav1.Duration{Duration: o.RetryPeriod},
		ResourceLock:  "leases", ResourceName: o.LeaderElectionName, ResourceNamespace: o.leaseNamespace(),
	}
	c.ClientConnection.QPS, c.ClientConnection.Burst = o.KubeAPIQPS, int32(min(o.KubeAPIBurst, 1<<31-1))
	c.EnableProfiling, c.EnableContentionProfiling = o.Profiling, o.ContentionProfiling
	return c, nil
}

// leaseNamespace returns the namespace of the Lease, empty if it is not known.
func (o *Options) leaseNamespace() string {
	namespace, _ := podNamespace() // see requireLeaseNamespace
	return cmp.Or(o.LeaderElectionNamespace, namespace)
}
