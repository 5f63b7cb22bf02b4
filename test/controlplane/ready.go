// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The checks below recognize a component of this control plane: etcd by the name of its member, all
// others by their serving certificate. Every control plane has others.

// etcdReady returns a check that the etcd with a name serves requests.
func etcdReady(address, name string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v3/cluster/member/list",
			strings.NewReader("{}"))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", req.URL, resp.Status)
		}
		var list struct{ Members []struct{ Name string } }
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
			return fmt.Errorf("%s: %w", req.URL, err)
		}
		if len(list.Members) != 1 || list.Members[0].Name != name {
			return fmt.Errorf("another etcd listens on %s: its members are %v", address, list.Members)
		}
		return nil
	}
}

func apiServerReady(config *rest.Config) func(context.Context) error {
	client, err := kubernetes.NewForConfig(config)
	return func(ctx context.Context) error {
		if err != nil {
			return err
		}
		if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		// the server creates it after it is ready
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	}
}

// healthy returns a check that a component reports its health, with the serving certificate of this
// control plane.
func healthy(config *rest.Config) func(context.Context) error {
	config.BearerToken = "" // only the API server knows it
	client, err := kubernetes.NewForConfig(config)
	return func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).Error()
	}
}
