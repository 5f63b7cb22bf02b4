// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/tls"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

// Files serves the certificate of two files, and reads them again when they change. While they do
// not belong together, it keeps the certificate that it has, logs and retries.
//
// Start runs once. Any goroutine may call GetCertificate, even before Start.
type Files struct {
	content *dynamiccertificates.DynamicCertKeyPairContent
	current atomic.Pointer[tls.Certificate]
}

// NewFiles reads the files for the first time.
func NewFiles(certificate, key string) (*Files, error) {
	content, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", certificate, key)
	if err != nil {
		return nil, err
	}
	f := &Files{content: content}
	f.Enqueue()
	content.AddListener(f)
	return f, nil
}

// GetCertificate implements the function of that name in tls.Config.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := f.current.Load(); c != nil {
		return c, nil
	}
	return nil, errNoCertificate
}

// Enqueue implements dynamiccertificates.Listener: the files have new content.
func (f *Files) Enqueue() {
	pair, err := tls.X509KeyPair(f.content.CurrentCertKeyContent())
	if err != nil { // not expected: the content is checked before
		klog.Background().Error(err, "Could not use the certificate of files", "files", f.content.Name())
		return
	}
	f.current.Store(&pair)
	klog.Background().Info("Serving with a certificate of files", "files", f.content.Name(), "serialNumber", pair.Leaf.SerialNumber, "notAfter", pair.Leaf.NotAfter)
}

// NeedLeaderElection returns false: every replica serves.
func (*Files) NeedLeaderElection() bool { return false }

// Start watches the files until ctx ends.
func (f *Files) Start(ctx context.Context) error {
	f.content.Run(ctx, 1)
	return nil
}
