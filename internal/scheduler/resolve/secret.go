// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/cert"

	"github.com/livesched/livesched/api/v1alpha1"
)

// The keys of a Secret that are read. Secrets of type kubernetes.io/tls have the same keys.
const (
	SecretCA          = "ca.crt"
	SecretCertificate = "tls.crt"
	SecretKey         = "tls.key"
)

// Secret is the TLS material of a Secret, or the reason why it could not be read. It never reveals
// its content: printed, logged or marshalled it is a fingerprint of its certificates.
type Secret struct {
	ca, cert, key []byte
	// policy is the name of the policy that may use the Secret.
	policy     string
	unreadable string
	// unanswered means that it may still be read: the API server has not answered.
	unanswered bool
	// assumed means that the Secret was not read and is assumed to be valid.
	assumed bool
}

// NewSecret returns the TLS material of a Secret. A Secret that no policy may use has none.
func NewSecret(secret *corev1.Secret) Secret {
	policy, data := secret.Labels[v1alpha1.LabelSchedulingPolicy], secret.Data
	if policy == "" {
		return Secret{}
	}
	return Secret{
		ca: bytes.Clone(data[SecretCA]), cert: bytes.Clone(data[SecretCertificate]), key: bytes.Clone(data[SecretKey]),
		policy: policy,
	}
}

// UnreadableSecret returns a Secret that could not be read.
func UnreadableSecret(why error) Secret { return Secret{unreadable: why.Error()} }

// UnansweredSecret returns a Secret that could not be read so far, as the API server does not
// answer. While a spec waits for it, no older spec runs in its place.
func UnansweredSecret(why error) Secret { return Secret{unreadable: why.Error(), unanswered: true} }

// anyUnanswered reports whether one of the Secrets may still be read.
func anyUnanswered(secrets map[types.NamespacedName]Secret) bool {
	for _, secret := range secrets {
		if secret.unanswered {
			return true
		}
	}
	return false
}

// RootCAs returns the trusted certificates. nil means those that the system trusts.
func (s *Secret) RootCAs() *x509.CertPool {
	if s == nil || len(s.ca) == 0 {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.ca)
	return pool
}

// ClientCertificates returns the client's certificate with its key, if there is one.
func (s *Secret) ClientCertificates() ([]tls.Certificate, error) {
	if s == nil || len(s.cert) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("reading %s and %s: %s", SecretCertificate, SecretKey, keyProblem(err))
	}
	return []tls.Certificate{pair}, nil
}

// problem returns why a policy cannot use the Secret, as the end of a sentence about it. It does
// not include errors of parsers: they may quote the content.
func (s *Secret) problem(policy string) (reason, problem string) {
	switch {
	case s.assumed:
		return "", ""
	case s.unreadable != "":
		return v1alpha1.ReasonSecretNotReadable, "cannot be read: " + s.unreadable
	case s.policy != policy && len(policy) > validation.LabelValueMaxLength:
		return v1alpha1.ReasonSecretNotPermitted,
			fmt.Sprintf("cannot be used by a policy whose name is longer than %d characters: "+
				"the Secret must name the policy in its label %s", validation.LabelValueMaxLength,
				v1alpha1.LabelSchedulingPolicy)
	case s.policy != policy:
		return v1alpha1.ReasonSecretNotPermitted,
			fmt.Sprintf("does not have the label %s=%s, by which its owner lets this policy use it",
				v1alpha1.LabelSchedulingPolicy, policy)
	case len(s.ca)+len(s.cert)+len(s.key) == 0:
		return v1alpha1.ReasonInvalidSecret,
			fmt.Sprintf("has none of %s, %s and %s", SecretCA, SecretCertificate, SecretKey)
	case len(s.ca) > 0 && !certificates(s.ca):
		return v1alpha1.ReasonInvalidSecret, fmt.Sprintf("has no certificates in PEM form in %s", SecretCA)
	case len(s.cert) == 0 && len(s.key) > 0:
		return v1alpha1.ReasonInvalidSecret, fmt.Sprintf("has %s without %s", SecretKey, SecretCertificate)
	case len(s.cert) > 0 && len(s.key) == 0:
		return v1alpha1.ReasonInvalidSecret, fmt.Sprintf("has %s without %s", SecretCertificate, SecretKey)
	case len(s.cert) > 0 && !certificates(s.cert):
		return v1alpha1.ReasonInvalidSecret, fmt.Sprintf("has no certificate in PEM form in %s", SecretCertificate)
	case len(s.cert) == 0:
		return "", ""
	}
	if _, err := tls.X509KeyPair(s.cert, s.key); err != nil {
		return v1alpha1.ReasonInvalidSecret, keyProblem(err)
	}
	return "", ""
}

func keyProblem(err error) string {
	if strings.Contains(err.Error(), "does not match") {
		return fmt.Sprintf("has a key in %s that does not match the certificate in %s", SecretKey, SecretCertificate)
	}
	return fmt.Sprintf("has no private key in PEM form in %s", SecretKey)
}

// certificates reports whether a text has certificates in PEM form, all of them valid.
func certificates(text []byte) bool {
	_, err := cert.ParseCertsPEM(text)
	return err == nil
}

// fingerprint identifies the content. The key need not be part of it: it belongs to the
// certificate.
func (s *Secret) fingerprint() string {
	hash := sha256.New()
	for _, part := range [][]byte{s.ca, s.cert} {
		length := binary.BigEndian.AppendUint64(nil, uint64(len(part)))
		hash.Write(length)
		hash.Write(part)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Equal reports whether two Secrets have the same content, for the same policy.
func (s Secret) Equal(other Secret) bool {
	return s.unreadable == other.unreadable && s.unanswered == other.unanswered && s.policy == other.policy &&
		bytes.Equal(s.ca, other.ca) && bytes.Equal(s.cert, other.cert) && bytes.Equal(s.key, other.key)
}

// MarshalJSON writes the fingerprint, which is part of revisions.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.fingerprint()) }

// Format keeps the content out of everything that is printed.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("Secret(" + s.fingerprint() + ")"))
}

// MarshalLog keeps the content out of logs.
func (s Secret) MarshalLog() any { return fmt.Sprint(s) }
