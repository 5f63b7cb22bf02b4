// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/livesched/livesched/api/v1alpha1"
)

const (
	// defaultHTTPTimeout bounds a call to an extender, the same as in the API schema.
	defaultHTTPTimeout = 5 * time.Second
	// MaxHTTPTimeout is the longest timeout of a call, the same as in the API schema. The
	// scheduling of all pods waits for a call.
	MaxHTTPTimeout = 15 * time.Second
)

// verbPattern is the pattern in the API schema: path segments that do not begin with a dot.
var verbPattern = regexp.MustCompile(`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)

// Extender is a resolved extender. It is immutable.
type Extender struct {
	// URLPrefix is the URL to which a verb is appended.
	URLPrefix string
	// The verbs. Empty ones are not called.
	FilterVerb, PrioritizeVerb, PreemptVerb, BindVerb string
	// Weight multiplies the scores of the extender.
	Weight int64
	// Timeout bounds each call.
	Timeout time.Duration
	// NodeCacheCapable extenders receive names instead of nodes and victims.
	NodeCacheCapable bool
	// ManagedResources are sorted. The extender is called for pods that request one of them, or for
	// every pod if there are none.
	ManagedResources []string
	// Ignorable means that an error of the extender does not fail the pod.
	Ignorable bool
	// TLS is used for URLs that begin with https.
	TLS ExtenderTLS
}

// ExtenderTLS configures the verification of an extender's certificate, and the client certificate.
type ExtenderTLS struct {
	// Insecure disables the verification.
	Insecure bool
	// ServerName is the name that the certificate must have, by default the host of the URL.
	ServerName string
	// Secret holds the trusted certificates and the client certificate. nil means the certificates
	// that the system trusts, and no client certificate.
	Secret *Secret
}

// SecretRefs returns the Secrets that the extenders of policies name, and the Secrets of last good
// policies that have not been read yet.
func SecretRefs(policies []v1alpha1.SchedulingPolicy, last LastGood) sets.Set[types.NamespacedName] {
	refs := sets.New[types.NamespacedName]()
	insertGood := func(good *GoodPolicy) {
		if good != nil && good.Secrets == nil {
			refs.Insert(secretNames(&good.Spec)...)
		}
	}
	for i := range policies {
		refs.Insert(secretNames(&policies[i].Spec)...)
	}
	for _, all := range last.Policies {
		for i := range all {
			insertGood(&all[i])
		}
	}
	for _, all := range last.Profiles {
		for i := range all {
			insertGood(all[i].Policy)
		}
	}
	return refs
}

// assumedSecrets returns every Secret that policies and last good specs name, assumed to be valid.
func assumedSecrets(policies []v1alpha1.SchedulingPolicy, last LastGood) map[types.NamespacedName]Secret {
	secrets := map[types.NamespacedName]Secret{}
	for name := range SecretRefs(policies, last) {
		secrets[name] = Secret{assumed: true}
	}
	return secrets
}

// secretNames returns the names of the Secrets that a policy names.
func secretNames(spec *v1alpha1.SchedulingPolicySpec) (names []types.NamespacedName) {
	for i := range spec.Extenders {
		if tls := spec.Extenders[i].TLSConfig; tls != nil && tls.SecretRef != nil {
			names = append(names, secretName(tls.SecretRef))
		}
	}
	return names
}

func secretName(ref *v1alpha1.SecretReference) types.NamespacedName {
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// secretsOf returns the Secrets that a policy names, so that it can keep them when they are
// deleted.
func secretsOf(spec *v1alpha1.SchedulingPolicySpec,
	all map[types.NamespacedName]Secret) map[types.NamespacedName]Secret {
	var named map[types.NamespacedName]Secret
	for _, name := range secretNames(spec) {
		if named == nil {
			named = map[types.NamespacedName]Secret{}
		}
		named[name] = all[name]
	}
	return named
}

// resolveExtenders checks the extenders of a policy as kube-scheduler does
// (pkg/scheduler/apis/config/validation), and also for errors that would otherwise appear only when
// an extender is called. Ignorable extenders come last; otherwise the order stays. ignored are the
// resources that are left to extenders.
func (r *resolver) resolveExtenders(
	policy string, specs []v1alpha1.Extender, secrets map[types.NamespacedName]Secret, path *field.Path,
	found *problems,
) (extenders []Extender, ignored []string) {
	binder := -1
	managed := sets.New[string]()
	for i := range specs {
		spec, path := &specs[i], path.Index(i)
		e := Extender{
			URLPrefix:        spec.URLPrefix,
			FilterVerb:       spec.FilterVerb,
			PrioritizeVerb:   spec.PrioritizeVerb,
			PreemptVerb:      spec.PreemptVerb,
			BindVerb:         spec.BindVerb,
			Weight:           spec.Weight,
			Timeout:          positive(spec.HTTPTimeout, defaultHTTPTimeout, path.Child("httpTimeout"), found),
			NodeCacheCapable: spec.NodeCacheCapable,
			Ignorable:        spec.Ignorable,
			TLS:              resolveTLS(policy, spec, secrets, path, found),
		}
		if e.Timeout > MaxHTTPTimeout {
			found.add(v1alpha1.ReasonInvalid, path.Child("httpTimeout"),
				"must be at most %v, is %v: the scheduling of all pods waits for a call", MaxHTTPTimeout, e.Timeout)
		}
		checkVerbs(spec, path, found)
		r.checkURL(spec, path, found)
		if spec.PrioritizeVerb != "" && spec.Weight <= 0 {
			found.add(v1alpha1.ReasonInvalid, path.Child("weight"),
				"must be greater than 0 with a prioritizeVerb, is %d", spec.Weight)
		}
		if spec.BindVerb != "" {
			if binder >= 0 {
				found.add(v1alpha1.ReasonInvalid, path.Child("bindVerb"),
					"only one extender of a policy can bind, and extenders[%d] has a bindVerb already", binder)
			} else {
				binder = i
			}
		}
		for j, resource := range spec.ManagedResources {
			checkManagedResource(resource.Name, managed, path.Child("managedResources").Index(j).Child("name"), found)
			managed.Insert(resource.Name)
			e.ManagedResources = append(e.ManagedResources, resource.Name)
			if resource.IgnoredByScheduler {
				ignored = append(ignored, resource.Name)
			}
		}
		slices.Sort(e.ManagedResources)
		extenders = append(extenders, e)
	}
	slices.SortStableFunc(extenders, func(a, b Extender) int { return order(a.Ignorable) - order(b.Ignorable) })
	return extenders, ignored
}

func order(ignorable bool) int {
	if ignorable {
		return 1
	}
	return 0
}

// checkManagedResource checks the name of an extended resource that no other extender of the policy
// manages.
func checkManagedResource(name string, managed sets.Set[string], path *field.Path, found *problems) {
	switch errs := validation.IsQualifiedName(name); {
	case len(errs) > 0:
		found.add(v1alpha1.ReasonInvalid, path, "%q is not the name of a resource: %s", name, strings.Join(errs, "; "))
	case !v1helper.IsExtendedResourceName(corev1.ResourceName(name)):
		found.add(v1alpha1.ReasonInvalid, path,
			"%q is not an extended resource: it must have the form example.com/gpu, outside of kubernetes.io", name)
	case managed.Has(name):
		found.add(v1alpha1.ReasonInvalid, path, "resource %q is managed twice", name)
	}
}

// checkVerbs checks that every verb is a path below the URL: it must not lead to another one.
func checkVerbs(spec *v1alpha1.Extender, path *field.Path, found *problems) {
	for _, verb := range []struct{ field, name string }{
		{"filterVerb", spec.FilterVerb}, {"preemptVerb", spec.PreemptVerb}, {"prioritizeVerb", spec.PrioritizeVerb},
		{"bindVerb", spec.BindVerb},
	} {
		if verb.name != "" && !verbPattern.MatchString(verb.name) {
			found.add(v1alpha1.ReasonInvalid, path.Child(verb.field), "%q is not a path such as filter or v1/filter: "+
				"segments of letters, digits and -_.~ that do not begin with a dot, separated by single slashes",
				verb.name)
		}
	}
}

// checkURL checks that the URL is one to which verbs can be appended, that the operator allows its
// host, and that the scheme matches the TLS settings.
func (r *resolver) checkURL(spec *v1alpha1.Extender, path *field.Path, found *problems) {
	tlsPath, path := path.Child("tlsConfig"), path.Child("urlPrefix")
	prefix, err := url.Parse(spec.URLPrefix)
	switch {
	case err != nil:
		// The error of url.Parse repeats the URL, which may have a password.
		found.add(v1alpha1.ReasonInvalid, path, "is not a URL")
	case prefix.Scheme != "http" && prefix.Scheme != "https":
		found.add(v1alpha1.ReasonInvalid, path, `must begin with http:// or https://`)
	case prefix.Hostname() == "":
		found.add(v1alpha1.ReasonInvalid, path, "must name a host")
	case prefix.User != nil:
		found.add(v1alpha1.ReasonInvalid, path, "must not have a user name or a password, which everyone who can "+
			"read the policy can read: use a client certificate in tlsConfig.secretRef")
	case prefix.RawQuery != "" || prefix.ForceQuery || prefix.Fragment != "":
		found.add(v1alpha1.ReasonInvalid, path, "must not have a query or a fragment: verbs are appended to it")
	case spec.EnableHTTPS && prefix.Scheme != "https":
		found.add(v1alpha1.ReasonInvalid, path, "must begin with https:// if enableHTTPS is set")
	case spec.TLSConfig != nil && prefix.Scheme != "https":
		found.add(v1alpha1.ReasonInvalid, tlsPath, "has no effect on a urlPrefix that begins with http://")
	case !r.input.AllowedHosts.Allows(prefix):
		found.add(v1alpha1.ReasonExtenderHostNotAllowed, path,
			"livesched's flag %s does not allow %s://%s; it allows %s",
			FlagAllowedHosts, prefix.Scheme, prefix.Host, r.input.AllowedHosts.describe())
	}
}

// resolveTLS returns the TLS settings of an extender. With enableHTTPS and no tlsConfig nothing is
// verified, as in kube-scheduler.
func resolveTLS(policy string, spec *v1alpha1.Extender, secrets map[types.NamespacedName]Secret, path *field.Path,
	found *problems) ExtenderTLS {
	if spec.TLSConfig == nil {
		return ExtenderTLS{Insecure: spec.EnableHTTPS}
	}
	resolved := ExtenderTLS{Insecure: spec.TLSConfig.Insecure, ServerName: spec.TLSConfig.ServerName}
	ref := spec.TLSConfig.SecretRef
	if ref == nil {
		return resolved
	}
	path = path.Child("tlsConfig", "secretRef")
	secret, exists := secrets[secretName(ref)]
	if !exists {
		found.add(v1alpha1.ReasonSecretNotFound, path, "Secret %q does not exist in namespace %q", ref.Name,
			ref.Namespace)
		return resolved
	}
	if reason, problem := secret.problem(policy); problem != "" {
		found.add(reason, path, "Secret %q in namespace %q %s", ref.Name, ref.Namespace, problem)
		return resolved
	}
	resolved.Secret = &secret
	return resolved
}
