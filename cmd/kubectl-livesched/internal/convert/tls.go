// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/base64"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// material is one kind of TLS material: the field with the path of a file, the field with the
// content, and the key in a Secret.
type material struct{ file, data, key string }

var materials = []material{
	{"caFile", "caData", resolve.SecretCA},
	{"certFile", "certData", resolve.SecretCertificate},
	{"keyFile", "keyData", resolve.SecretKey},
}

// tls converts the TLS settings of an extender. TLS material in the configuration goes into a
// Secret; for files, a remark has the command that creates the Secret.
func (c *converter) tls(f *fields, index int, extender *v1alpha1.Extender) {
	secure := strings.HasPrefix(extender.URLPrefix, "https://")
	t := f.object("tlsConfig")
	if !secure {
		c.withoutTLS(f, t, extender)
		return
	}
	if t == nil {
		return
	}
	tls := &v1alpha1.ExtenderTLSConfig{Insecure: t.flag("insecure"), ServerName: t.text("serverName")}
	name := fmt.Sprintf("%s-extender-%d", c.policyName, index)
	files, data := c.materials(t)
	t.unknown()
	hasCA := len(data[resolve.SecretCA]) > 0 ||
		strings.Contains(strings.Join(files, " "), "--from-file="+resolve.SecretCA+"=")
	if extender.EnableHTTPS && !hasCA && !tls.Insecure {
		tls.Insecure = true
		c.remark(Note, t.path, "kube-scheduler does not verify the certificate of an extender with enableHTTPS and "+
			"without a CA: insecure: true is written out")
	}
	if len(files)+len(data) > 0 {
		tls.SecretRef = &v1alpha1.SecretReference{Namespace: c.options.Namespace, Name: name}
	}
	switch {
	case len(files) > 0 && len(data) > 0:
		for _, key := range []string{resolve.SecretCA, resolve.SecretCertificate, resolve.SecretKey} {
			if len(data[key]) > 0 {
				files = append(files, "--from-file="+key+"=<the content of the field>")
			}
		}
		fallthrough
	case len(files) > 0:
		c.remark(Loss, t.path, "livesched reads TLS material from a Secret; create it: kubectl create secret generic "+
			"-n %[1]s %[2]s %[3]s; and let the policy use it: kubectl label secret -n %[1]s %[2]s %[4]s=%[5]s",
			c.options.Namespace, name, strings.Join(files, " "), v1alpha1.LabelSchedulingPolicy, c.policyName)
	case len(data) > 0:
		secret := corev1.Secret{Data: data}
		secret.APIVersion, secret.Kind = "v1", "Secret"
		secret.Namespace, secret.Name = c.options.Namespace, name
		secret.Labels = map[string]string{v1alpha1.LabelSchedulingPolicy: c.policyName}
		c.result.Secrets = append(c.result.Secrets, secret)
		c.remark(Note, t.path, "the TLS material is now in the Secret %s/%s", secret.Namespace, secret.Name)
	}
	if *tls != (v1alpha1.ExtenderTLSConfig{}) || extender.EnableHTTPS {
		extender.TLSConfig = tls
	}
}

// materials returns the TLS material: kubectl's arguments for material in files, and the data of a
// Secret for material in the configuration.
func (c *converter) materials(t *fields) (files []string, data map[string][]byte) {
	data = map[string][]byte{}
	for _, m := range materials {
		file, text := t.text(m.file), t.text(m.data)
		switch {
		case text != "": // as in kube-scheduler, the data has precedence
			content, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				c.remark(Loss, t.at(m.data), "not base64: left out")
				continue
			}
			data[m.key] = content
		case file != "":
			files = append(files, "--from-file="+m.key+"="+file)
		}
	}
	return files, data
}

// withoutTLS adds remarks on the TLS settings of an extender that does not use TLS, and drops them.
func (c *converter) withoutTLS(f, t *fields, extender *v1alpha1.Extender) {
	if extender.EnableHTTPS {
		extender.EnableHTTPS = false
		c.remark(Note, f.at("enableHTTPS"), "no effect with a urlPrefix that does not begin with https://: left out")
	}
	if t != nil {
		c.remark(Note, t.path, "no effect with a urlPrefix that does not begin with https://: left out")
	}
}
