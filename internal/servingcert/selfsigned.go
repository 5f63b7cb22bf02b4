// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"crypto/tls"
	"fmt"
	"sync"

	"k8s.io/utils/clock"
)

// SelfSigned issues a certificate in memory, for servers that have no other one. Clients cannot
// verify it, but connections are encrypted. It is renewed when a third of its lifetime is left.
//
// The fields must not change after the first call of GetCertificate, which any goroutine may make.
type SelfSigned struct {
	// Names are the names in the certificate, at least one.
	Names []string
	Clock clock.PassiveClock

	mu   sync.Mutex       // guards held
	held *tls.Certificate // nil until the first handshake
}

// GetCertificate implements the function of that name in tls.Config.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	if s.held != nil && now.Before(renewal(s.held.Leaf, 3)) {
		return s.held, nil
	}
	r, err := renew(nil, s.Names, now, DefaultLifetimes)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(r.data[SecretCertificate], r.data[SecretKey])
	if err != nil {
		return nil, fmt.Errorf("reading what was made: %w", err)
	}
	s.held = &pair
	return s.held, nil
}
