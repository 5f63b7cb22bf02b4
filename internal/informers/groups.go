// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

var _ clientinformers.SharedInformerFactory = (*Scope)(nil)

// The API groups have client-go's typed informers and listers, which get their informers from
// Scope.InformerFor.

func (s *Scope) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(s, "", nil)
}
func (s *Scope) Internal() apiserverinternal.Interface { return apiserverinternal.New(s, "", nil) }
func (s *Scope) Apps() apps.Interface                  { return apps.New(s, "", nil) }
func (s *Scope) Autoscaling() autoscaling.Interface    { return autoscaling.New(s, "", nil) }
func (s *Scope) Batch() batch.Interface                { return batch.New(s, "", nil) }
func (s *Scope) Certificates() certificates.Interface  { return certificates.New(s, "", nil) }
func (s *Scope) Coordination() coordination.Interface  { return coordination.New(s, "", nil) }
func (s *Scope) Core() core.Interface                  { return core.New(s, "", nil) }
func (s *Scope) Discovery() discovery.Interface        { return discovery.New(s, "", nil) }
func (s *Scope) Events() events.Interface              { return events.New(s, "", nil) }
func (s *Scope) Extensions() extensions.Interface      { return extensions.New(s, "", nil) }
func (s *Scope) Flowcontrol() flowcontrol.Interface    { return flowcontrol.New(s, "", nil) }
func (s *Scope) Lifecycle() lifecycle.Interface        { return lifecycle.New(s, "", nil) }
func (s *Scope) Networking() networking.Interface      { return networking.New(s, "", nil) }
func (s *Scope) Node() node.Interface                  { return node.New(s, "", nil) }
func (s *Scope) Policy() policy.Interface              { return policy.New(s, "", nil) }
func (s *Scope) Rbac() rbac.Interface                  { return rbac.New(s, "", nil) }
func (s *Scope) Resource() resource.Interface          { return resource.New(s, "", nil) }
func (s *Scope) Scheduling() scheduling.Interface      { return scheduling.New(s, "", nil) }
func (s *Scope) Storage() storage.Interface            { return storage.New(s, "", nil) }
func (s *Scope) Storagemigration() storagemigration.Interface {
	return storagemigration.New(s, "", nil)
}
