// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/namedwatch"
)

// maxSleep bounds the wait for the next renewal, because the clock may be adjusted during the wait.
const maxSleep = 12 * time.Hour

// retryAfter is the time between a failure and the next attempt.
const retryAfter = 30 * time.Second

// errNoCertificate is the error of handshakes before there is a certificate.
var errNoCertificate = errors.New("there is no certificate yet")

// Keeper keeps a serving certificate valid in a Secret that several replicas share, and its
// authority in a ValidatingWebhookConfiguration or an APIService. Both objects must exist. The
// Keeper fills them in, and restores its content when others change them.
//
// Every replica runs a Keeper. The Keepers agree because the wanted content depends on the Secret
// alone, and because the first replica to write it wins: the others then see its content.
//
// The fields must not change after Start. Any goroutine may call GetCertificate, even before Start.
type Keeper struct {
	Client clientset.Interface
	// Secret holds the certificate.
	Secret types.NamespacedName
	// Callers hold the authority: API servers call those whom it has signed.
	Callers Callers
	// Manifests is the directory whose manifests have both objects, for messages.
	Manifests string
	// DNSNames are the names that the certificate is valid for, at least one.
	DNSNames []string
	// Lifetimes are the lifetimes of issued certificates. The zero value means DefaultLifetimes.
	Lifetimes Lifetimes
	Clock     clock.Clock

	current atomic.Pointer[tls.Certificate]
}

// GetCertificate implements the function of that name in tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := k.current.Load(); current != nil {
		return current, nil
	}
	return nil, errNoCertificate
}

// NeedLeaderElection returns false: the Keeper runs on every replica.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start runs until ctx ends, and then returns nil. It logs and retries failures instead of
// returning them, because a missing certificate must not end the scheduler.
func (k *Keeper) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("secret", k.Secret.String(), "for", k.Callers.String())
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	secrets, secretsErr := namedwatch.NewInformer(
		k.Client, k.Client.CoreV1().Secrets(k.Secret.Namespace), k.Secret.Name, &corev1.Secret{}, poke)
	callers, callersErr := k.Callers.informer(poke)
	if err := errors.Join(secretsErr, callersErr); err != nil {
		panic(err) // only an informer that was stopped refuses a handler
	}
	var running sync.WaitGroup
	for _, informer := range []cache.SharedIndexInformer{secrets, callers} {
		running.Go(func() { informer.RunWithContext(ctx) })
		running.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				poke() // also if the object does not exist
			}
		})
	}
	defer running.Wait()
	for {
		again := k.Clock.NewTimer(k.sync(ctx, logger, secrets, callers))
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-changed:
			again.Stop()
		case <-again.C():
		}
	}
}

// sync updates the Secret, the served certificate and the authority of the callers, and returns the
// longest wait before the next call.
func (k *Keeper) sync(ctx context.Context, logger klog.Logger,
	secrets, callers cache.SharedIndexInformer) time.Duration {
	if !secrets.HasSynced() {
		return maxSleep // the informer logs the reason, and pokes when it has synced
	}
	bundle, good, err := k.syncSecret(ctx, logger, secrets)
	if err == nil && callers.HasSynced() {
		err = k.syncCallers(ctx, logger, callers, bundle)
	}
	switch {
	case err == nil:
		return min(good, maxSleep)
	case ctx.Err() != nil, apierrors.IsConflict(err):
		return retryAfter // another replica was first, and the informer has not seen its write yet
	default:
		logger.Error(err, "Could not update the certificate or its authority, retrying", "after", retryAfter)
		return retryAfter
	}
}

// syncSecret renews the Secret if that is due, and serves its certificate. It returns the
// authorities, and how long to wait until the next renewal.
func (k *Keeper) syncSecret(ctx context.Context, logger klog.Logger,
	secrets cache.SharedIndexInformer) (bundle []byte, good time.Duration, err error) {
	object, exists, err := secrets.GetStore().GetByKey(k.Secret.String())
	if err != nil || !exists {
		return nil, 0, errors.Join(err,
			fmt.Errorf("there is no Secret %q: apply %s, which has it, empty", k.Secret, k.Manifests))
	}
	secret, _ := object.(*corev1.Secret)
	lifetimes := k.Lifetimes
	if lifetimes == (Lifetimes{}) {
		lifetimes = DefaultLifetimes
	}
	r, err := renew(secret.Data, k.DNSNames, k.Clock.Now(), lifetimes)
	if err != nil {
		return nil, 0, err
	}
	if r.changed {
		secret = secret.DeepCopy()
		secret.Data = r.data
		if _, err := k.Client.CoreV1().Secrets(k.Secret.Namespace).
			Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return nil, 0, fmt.Errorf("writing Secret %q: %w", k.Secret, err)
		}
		logger.Info("Renewed the certificate")
	}
	pair, err := tls.X509KeyPair(r.data[SecretCertificate], r.data[SecretKey])
	if err != nil {
		return nil, 0, fmt.Errorf("reading what was renewed: %w", err)
	}
	if current := k.current.Load(); current == nil || !current.Leaf.Equal(pair.Leaf) {
		k.current.Store(&pair)
		logger.Info("Serving with a new certificate", "serialNumber", pair.Leaf.SerialNumber, "notAfter",
			pair.Leaf.NotAfter)
	}
	return r.data[SecretCA], max(r.again.Sub(k.Clock.Now()), time.Second), nil
}

// syncCallers writes the authorities to where the API servers look, so that they trust them.
func (k *Keeper) syncCallers(ctx context.Context, logger klog.Logger, callers cache.SharedIndexInformer,
	bundle []byte) error {
	object, exists, err := callers.GetStore().GetByKey(k.Callers.name())
	if err != nil || !exists {
		return errors.Join(err, fmt.Errorf("there is no %s: apply %s", k.Callers, k.Manifests))
	}
	changed, err := k.Callers.write(ctx, object, bundle)
	if err != nil {
		return fmt.Errorf("writing the authority into %s: %w", k.Callers, err)
	}
	if changed {
		logger.Info("Wrote the authority of the certificate to where API servers look for it")
	}
	return nil
}
