// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// credentials are the files with which the components authenticate each other, and by which the
// control plane recognizes its components. Every control plane gets new ones.
type credentials struct {
	dir                                                            string
	servingCert, servingKey, serviceAccountKey, tokens, kubeconfig string
	adminToken                                                     string
	etcdName                                                       string // of its only member
	etcd                                                           string // URL, once it runs
}

// writeCredentials writes the files that do not depend on an address.
func writeCredentials(dir string) (*credentials, error) {
	c := &credentials{dir: filepath.Join(dir, "credentials"), adminToken: rand.Text(), etcdName: "livesched-" +
		rand.Text()}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making room for credentials: %w", err)
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil,
		[]string{"localhost", "kubernetes.default.svc"})
	if err != nil {
		return nil, fmt.Errorf("making the serving certificate: %w", err)
	}
	accountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("making the key for service accounts: %w", err)
	}
	c.kubeconfig = filepath.Join(dir, "kubeconfig")
	for _, file := range []struct {
		path    *string
		name    string
		content []byte
	}{
		{&c.servingCert, "serving.crt", cert}, // includes its CA
		{&c.servingKey, "serving.key", key},
		{&c.serviceAccountKey, "service-account.key", accountKey},
		{&c.tokens, "tokens.csv", fmt.Appendf(nil, "%s,admin,admin,system:masters\n", c.adminToken)},
	} {
		*file.path = filepath.Join(c.dir, file.name)
		if err := os.WriteFile(*file.path, file.content, 0o600); err != nil {
			return nil, fmt.Errorf("writing credentials: %w", err)
		}
	}
	return c, nil
}

// restConfig returns a configuration for the clients of a test, with envtest's rate limits.
func (c *credentials) restConfig(host string) *rest.Config {
	return &rest.Config{
		Host:            host,
		BearerToken:     c.adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.servingCert},
		QPS:             1000,
		Burst:           2000,
	}
}

func (c *credentials) writeKubeconfig(host string) error {
	return c.write(c.kubeconfig, host, &clientcmdapi.AuthInfo{Token: c.adminToken})
}

func (c *credentials) writeKubeconfigAs(host, user string, groups []string) (string, error) {
	file, err := os.CreateTemp(c.dir, "impersonating-*.kubeconfig")
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	auth := &clientcmdapi.AuthInfo{Token: c.adminToken, Impersonate: user, ImpersonateGroups: groups}
	return file.Name(), c.write(file.Name(), host, auth)
}

// write embeds the CA, so that the file can be copied anywhere.
func (c *credentials) write(path, host string, auth *clientcmdapi.AuthInfo) error {
	ca, err := os.ReadFile(c.servingCert)
	if err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	const name = "livesched-sandbox"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: host, CertificateAuthorityData: ca}
	config.AuthInfos[name] = auth
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}
