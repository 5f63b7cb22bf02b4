// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
)

// PublishedConfigMap is the name of the ConfigMap in which replicas publish the certificates that
// they serve on the secure port. Its keys are host names. Each value is a line with the time of
// publication and the certificate in PEM, so that everything that reads PEM reads it.
const PublishedConfigMap = "livesched-serving-certs"

// publishedAt precedes the time in a value.
const publishedAt = "published "

const (
	// renewAfter is the age at which a replica publishes its certificate again. staleAfter is the
	// age at which any replica removes the certificate of another one, which then has ended.
	renewAfter = 24 * time.Hour
	staleAfter = 3 * renewAfter
	// maxPublished bounds the size of the ConfigMap: each value takes about 1 KiB of its 1 MiB.
	maxPublished = 200
)

// errNotPublished is the error if a host has published nothing.
var errNotPublished = errors.New("no certificate is published")

// Published returns the certificate that a host has published in the data of the ConfigMap.
func Published(data map[string]string, host string) (*x509.Certificate, error) {
	text, ok := data[host]
	if !ok {
		return nil, errNotPublished
	}
	all, err := cert.ParseCertsPEM([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("what is published is not a certificate: %w", err)
	}
	return all[0], nil
}

// publish returns data in which a host has published a certificate and stale values are gone, and
// whether it differs from the current data. It does not change the current data.
func publish(data map[string]string, host string, certificate *x509.Certificate,
	now time.Time) (map[string]string, bool) {
	next := map[string]string{}
	maps.Copy(next, data)
	maps.DeleteFunc(next, func(other, text string) bool { return other != host && now.Sub(timeOf(text)) >= staleAfter })
	held, err := Published(data, host)
	if err != nil || !held.Equal(certificate) || now.Sub(timeOf(data[host])) >= renewAfter {
		next[host] = publishedAt + now.UTC().Format(time.RFC3339) + "\n" +
			string(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: certificate.Raw}))
	}
	if excess := len(next) - maxPublished; excess > 0 {
		others := slices.DeleteFunc(slices.Collect(maps.Keys(next)), func(other string) bool { return other == host })
		slices.SortFunc(others, func(a, b string) int {
			return cmp.Or(timeOf(next[a]).Compare(timeOf(next[b])), cmp.Compare(a, b))
		})
		for _, oldest := range others[:excess] {
			delete(next, oldest)
		}
	}
	return next, !maps.Equal(next, data)
}

// timeOf returns the time in a value, and the zero time if it has none.
func timeOf(text string) time.Time {
	line, _, _ := strings.Cut(text, "\n")
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(line, publishedAt))
	if err != nil {
		return time.Time{}
	}
	return at
}
