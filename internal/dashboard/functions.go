// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

// functions are those that templates call.
func (h *handler) functions() template.FuncMap {
	return template.FuncMap{
		"asset":        h.assetPath,
		"link":         h.link,
		"pod":          h.podLink,
		"node":         h.nodeLink,
		"group":        h.groupLink,
		"kind":         h.kindLink,
		"path":         url.PathEscape,
		"place":        placeName,
		"podPart":      h.podPartLink,
		"id":           id,
		"count":        func(n any) string { return words.Grouped.Sprintf("%d", n) },
		"rate":         rate,
		"join":         strings.Join,
		"age":          func(of metav1.Time) string { return age(of.Time) },
		"clock":        func(at metav1.Time) string { return at.UTC().Format(time.TimeOnly) },
		"dateClock":    func(at metav1.Time) string { return at.UTC().Format("2 Jan 15:04") },
		"clockOf":      func(at metav1.MicroTime) string { return at.UTC().Format("15:04:05.000") },
		"stamp":        func(at metav1.Time) string { return at.UTC().Format(time.RFC3339) },
		"stampOf":      func(at metav1.MicroTime) string { return at.UTC().Format(time.RFC3339Nano) },
		"requests":     requestsWords,
		"refusal":      words.Refusal,
		"whyNot":       words.WhyNot,
		"reason":       words.ShortReason,
		"result":       resultClass,
		"milliseconds": milliseconds,
		"results":      func() []string { return v1alpha1.DecisionResultNames },
		"json":         asJSON,
		"list":         func(items ...string) []string { return items },
		"add":          func(a, b int) int { return a + b },
		"times":        func(a, b int) int { return a * b },
	}
}

// asJSON returns a value for a script. Templates escape it.
func asJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// link returns an address below the prefix: the path, and the query of names and values. A value
// that is "" is left out.
func (h *handler) link(path string, query ...any) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if value := fmt.Sprint(query[i+1]); value != "" {
			values.Set(fmt.Sprint(query[i]), value)
		}
	}
	if len(values) == 0 {
		return h.prefix + path
	}
	return h.prefix + path + "?" + values.Encode()
}

// podLink returns the address of the page of a pod.
func (h *handler) podLink(namespace, name string) string {
	return h.prefix + "/pods/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// groupLink returns the address of the page of a pod group.
func (h *handler) groupLink(namespace, name string) string {
	return h.prefix + "/groups/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// kindLink returns the address of the page of a kind.
func (h *handler) kindLink(namespace, id string) string {
	return h.prefix + "/kinds/" + url.PathEscape(namespace) + "/" + url.PathEscape(id)
}

// podPartLink returns the address of the explanation of a pod, with a node that is compared.
func (h *handler) podPartLink(namespace, name, node string) string {
	return h.link("/parts/pods/"+url.PathEscape(namespace)+"/"+url.PathEscape(name), "node", node)
}

// nodeLink returns the address of the page of a node.
func (h *handler) nodeLink(name string) string { return h.prefix + "/nodes/" + url.PathEscape(name) }

// id returns the id of an element about what the names stand for. It does not change when the part
// is loaded again, so that the element keeps the focus.
func id(names ...string) string {
	hash := fnv.New64a()
	for _, name := range names[1:] {
		_, _ = hash.Write([]byte(name + "\x00")) // it does not fail
	}
	return fmt.Sprintf("%s-%x", names[0], hash.Sum64())
}
