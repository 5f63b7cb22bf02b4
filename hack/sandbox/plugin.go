// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	certutil "k8s.io/client-go/util/cert"
)

// servingFiles are the certificate and the key of livesched's secure port.
type servingFiles struct{ cert, key string }

// createServingFiles creates a certificate that signs itself, so that clients can verify it by its
// own file: livesched runs outside of the cluster here, where no Service leads to it.
func (s *sandbox) createServingFiles(host string) (servingFiles, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return servingFiles{}, err
	}
	files := servingFiles{cert: filepath.Join(s.dir, "livesched.crt"), key: filepath.Join(s.dir, "livesched.key")}
	return files, errors.Join(os.WriteFile(files.cert, cert, 0o644), os.WriteFile(files.key, key, 0o600))
}

// environment returns the variables with which kubectl and the plugin reach the cluster and
// livesched.
func (s *sandbox) environment() []string {
	return []string{"KUBECONFIG=" + s.controlPlane.Kubeconfig(), "LIVESCHED_URL=https://" + s.secure, "LIVESCHED_CA=" +
		s.serving.cert}
}

// writeEnvironment writes a file that sets these variables, and PATH, in the shell that sources it.
func (s *sandbox) writeEnvironment() error {
	var text strings.Builder
	for _, setting := range s.environment() {
		name, value, _ := strings.Cut(setting, "=")
		fmt.Fprintf(&text, "export %s=%s\n", name, shellQuoted([]string{value}))
	}
	fmt.Fprintf(&text, "export PATH=%s:$PATH\n", shellQuoted([]string{filepath.Join(s.root, "bin")}))
	return os.WriteFile(s.environmentFile(), []byte(text.String()), 0o600)
}

func (s *sandbox) environmentFile() string { return filepath.Join(s.dir, "env") }

// plugin runs a command of bin/kubectl-livesched, and returns what it prints. The transcript shows
// both.
func (s *sandbox) plugin(ctx context.Context, args ...string) (string, error) {
	s.out.printf("$ kubectl livesched %s\n", shellQuoted(args))
	command := exec.CommandContext(ctx, filepath.Join(s.root, "bin", "kubectl-livesched"), args...)
	command.Env = append(os.Environ(), s.environment()...)
	var errOut strings.Builder
	command.Stderr = &errOut
	text, err := command.Output()
	s.out.printf("%s", text)
	if err != nil {
		return "", fmt.Errorf("kubectl livesched %s: %w: %s", args[0], err, errOut.String())
	}
	return string(text), nil
}

// shellQuoted joins arguments as one would type them in a shell.
func shellQuoted(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if strings.ContainsAny(arg, " <>|&;$*'") {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
