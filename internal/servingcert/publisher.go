// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// lookEvery is how often the Publisher looks whether another certificate is served. That costs
	// no request.
	lookEvery = 10 * time.Second
	// checkEvery is how often it reads the ConfigMap, which others may have changed.
	checkEvery = 10 * time.Minute
)

// Publisher publishes the certificate that this replica serves, so that clients accept it and no
// other one. No private key leaves the process: a client trusts the ConfigMap, which only livesched
// and administrators may write.
//
// Every replica runs a Publisher in one goroutine, and the replicas share the ConfigMap, which must
// exist. The fields must not change after Start.
type Publisher struct {
	Client clientset.Interface
	// Namespace is the namespace of the ConfigMap PublishedConfigMap.
	Namespace string
	// Host is the host name of this replica, which in a pod is the pod's name.
	Host string
	// GetCertificate returns the certificate that is served, the same pointer until that changes.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Clock          clock.Clock
}

// NeedLeaderElection returns false: every replica publishes its certificate.
func (*Publisher) NeedLeaderElection() bool { return false }

// Start runs until ctx ends, and then returns nil. It logs and retries failures, because
// scheduling does not depend on them.
func (p *Publisher) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("configMap", p.Namespace+"/"+PublishedConfigMap, "host", p.Host)
	var published *tls.Certificate
	var next time.Time // when to read the ConfigMap again
	for {
		served, err := p.GetCertificate(nil)
		if now := p.Clock.Now(); err == nil && (served != published || !now.Before(next)) {
			if err = p.publish(ctx, logger, served); err == nil {
				published, next = served, now.Add(checkEvery)
			}
		}
		wait := lookEvery
		if err != nil && ctx.Err() == nil {
			wait = checkEvery
			if errors.Is(err, errNoCertificate) {
				wait = lookEvery
			} else {
				logger.Error(err, "Could not publish the certificate of the secure port: kubectl livesched cannot "+
					"verify this replica; retrying", "after", wait)
			}
		}
		again := p.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-again.C():
		}
	}
}

// publish writes a certificate to the ConfigMap, unless it is there.
func (p *Publisher) publish(ctx context.Context, logger klog.Logger, served *tls.Certificate) error {
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	if err != nil {
		return fmt.Errorf("reading the certificate that is served: %w", err)
	}
	all := p.Client.CoreV1().ConfigMaps(p.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := all.Get(ctx, PublishedConfigMap, metav1.GetOptions{})
		if err != nil {
			return err
		}
		data, changed := publish(current.Data, p.Host, leaf, p.Clock.Now())
		if !changed {
			return nil
		}
		current = current.DeepCopy()
		current.Data = data
		if _, err := all.Update(ctx, current, metav1.UpdateOptions{}); err != nil {
			return err
		}
		logger.Info("Published the certificate of the secure port", "serialNumber", leaf.SerialNumber, "notAfter",
			leaf.NotAfter)
		return nil
	})
}
