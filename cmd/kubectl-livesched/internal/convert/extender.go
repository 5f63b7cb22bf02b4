// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// extenders converts the extenders of a configuration or of a legacy policy.
func (c *converter) extenders(f *fields) []v1alpha1.Extender {
	elements, _ := f.objects("extenders")
	var extenders []v1alpha1.Extender
	for i, element := range elements {
		extenders = append(extenders, c.extender(element, i))
	}
	return extenders
}

func (c *converter) extender(f *fields, index int) v1alpha1.Extender {
	extender := v1alpha1.Extender{
		URLPrefix:        f.text("urlPrefix"),
		FilterVerb:       f.text("filterVerb"),
		PreemptVerb:      f.text("preemptVerb"),
		PrioritizeVerb:   f.text("prioritizeVerb"),
		BindVerb:         f.text("bindVerb"),
		EnableHTTPS:      f.flag("enableHTTPS"),
		NodeCacheCapable: f.flag("nodeCacheCapable"),
		Ignorable:        f.flag("ignorable"),
		HTTPTimeout:      c.timeout(f),
	}
	if weight := f.integer("weight"); weight != nil {
		extender.Weight = *weight
	}
	resources, _ := f.objects("managedResources")
	for _, resource := range resources {
		extender.ManagedResources = append(extender.ManagedResources, v1alpha1.ExtenderManagedResource{
			Name: resource.text("name"), IgnoredByScheduler: resource.flag("ignoredByScheduler"),
		})
		resource.unknown()
	}
	c.tls(f, index, &extender)
	c.restrictions(f, &extender)
	if f.fold {
		f.take("apiVersion") // meaningless, but in many examples of legacy policies
	}
	f.unknown()
	return extender
}

// restrictions adds remarks on what kube-scheduler allows an extender and livesched does not.
func (c *converter) restrictions(f *fields, extender *v1alpha1.Extender) {
	prefix, err := url.Parse(extender.URLPrefix)
	if err != nil {
		return // validate reports it
	}
	if prefix.User != nil {
		prefix.User = nil
		extender.URLPrefix = prefix.String()
		c.remark(Loss, f.at("urlPrefix"),
			"the user name and the password are left out: use a client certificate in tlsConfig.secretRef")
	}
	if !c.options.AllowedHosts.Allows(prefix) {
		c.remark(Loss, f.at("urlPrefix"), "livesched does not accept %s://%s: allow the host with %s of livesched, "+
			"and of this command; see docs/operate/security.md",
			prefix.Scheme, prefix.Host, resolve.FlagAllowedHosts)
	}
}

// timeout reads a duration: a string or, in legacy policies, nanoseconds. 0 means the default, as
// in kube-scheduler.
func (c *converter) timeout(f *fields) *metav1.Duration {
	const name = "httpTimeout"
	value, key := f.take(name)
	var timeout time.Duration
	switch value := value.(type) {
	case nil:
		return nil
	case int64:
		timeout = time.Duration(value)
	case float64:
		timeout = time.Duration(value)
	case string:
		parsed, err := time.ParseDuration(value)
		if err != nil {
			c.remark(Loss, f.at(key), "%q is not a duration, such as 5s: left out", value)
			return nil
		}
		timeout = parsed
	default:
		f.mistyped(key, "a duration", value)
		return nil
	}
	if timeout == 0 {
		return nil
	}
	// The schema allows units down to milliseconds.
	if timeout > 0 && timeout < time.Millisecond {
		c.remark(Note, f.at(key), "%v is rounded up to %v", timeout, time.Millisecond)
		timeout = time.Millisecond
	}
	if timeout > resolve.MaxHTTPTimeout {
		c.remark(Loss, f.at(key), "%v is shortened to %v, the longest that livesched allows", timeout,
			resolve.MaxHTTPTimeout)
		timeout = resolve.MaxHTTPTimeout
	}
	return &metav1.Duration{Duration: timeout}
}
