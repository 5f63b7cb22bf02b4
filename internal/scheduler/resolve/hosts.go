// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// FlagAllowedHosts is the name of the flag for AllowedHosts, which conditions name.
const FlagAllowedHosts = "--extender-allowed-hosts"

// AllHosts is the value of FlagAllowedHosts that allows every host, with HTTP and HTTPS.
const AllHosts = "off"

// AllowedHosts are the hosts that extenders may be at. Users who may write policies choose
// the addresses that livesched connects to, and this is the operator's limit on them. The zero
// value allows none. It is immutable.
type AllowedHosts struct {
	all   bool
	hosts []allowedHost
}

// allowedHost is a host, or a suffix of hosts that begins with a dot.
type allowedHost struct {
	name string
	port string // empty means any
	http bool   // HTTP is allowed in addition to HTTPS
}

// DefaultAllowedHosts are the names of Services. They require HTTPS.
func DefaultAllowedHosts() []string { return []string{"*.svc", "*.svc.cluster.local"} }

// AnyHost allows every host, with HTTP and HTTPS.
func AnyHost() AllowedHosts { return AllowedHosts{all: true} }

// ParseAllowedHosts reads the values of FlagAllowedHosts: AllHosts alone, or a list of hosts
// (example.com, 10.0.0.1) and of all names below a domain (*.example.com or .example.com), each
// with an optional port, and with http:// in front to allow HTTP as well.
func ParseAllowedHosts(values []string) (AllowedHosts, error) {
	if len(values) == 1 && values[0] == AllHosts {
		return AnyHost(), nil
	}
	var allowed AllowedHosts
	for _, value := range values {
		host, err := parseAllowedHost(value)
		if err != nil {
			return AllowedHosts{}, fmt.Errorf("%q: %w", value, err)
		}
		allowed.hosts = append(allowed.hosts, host)
	}
	return allowed, nil
}

func parseAllowedHost(value string) (allowedHost, error) {
	if value == AllHosts {
		return allowedHost{}, fmt.Errorf("%s must be the only value", AllHosts)
	}
	rest, plain := strings.CutPrefix(value, "http://")
	rest = strings.TrimPrefix(rest, "https://")
	if name := strings.Trim(rest, "[]"); strings.Contains(name, ":") {
		if address, err := netip.ParseAddr(name); err == nil { // IPv6 without a port
			return allowedHost{name: address.String(), http: plain}, nil
		}
	}
	host := allowedHost{name: rest, http: plain}
	if strings.Contains(rest, ":") {
		name, port, err := net.SplitHostPort(rest)
		if err != nil {
			return allowedHost{}, errors.New("must be a host with an optional port, such as example.com:8443")
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return allowedHost{}, fmt.Errorf("port %q is not a number from 1 to 65535", port)
		}
		host.name, host.port = name, port
	}
	host.name = canonicalHost(strings.TrimPrefix(host.name, "*"))
	if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(host.name, "."))) > 0 {
		if _, err := netip.ParseAddr(host.name); err != nil {
			return allowedHost{}, errors.New("must be a host such as example.com, or names below a domain such as " +
				"*.example.com, with an optional port")
		}
	}
	return host, nil
}

// canonicalHost returns a host in one spelling: names in lower case and without the dot of the root
// zone at their end, addresses as netip writes them.
func canonicalHost(host string) string {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.String()
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// Allows reports whether an extender may be at the URL.
func (a AllowedHosts) Allows(prefix *url.URL) bool {
	if a.all {
		return true
	}
	host, port := canonicalHost(prefix.Hostname()), prefix.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[prefix.Scheme]
	}
	return slices.ContainsFunc(a.hosts, func(h allowedHost) bool {
		return (h.http || prefix.Scheme == "https") && (h.port == "" || h.port == port) && h.matches(host)
	})
}

func (a allowedHost) matches(host string) bool {
	if !strings.HasPrefix(a.name, ".") {
		return host == a.name
	}
	return len(host) > len(a.name) && strings.HasSuffix(host, a.name)
}

// describe lists the allowed hosts for a message.
func (a AllowedHosts) describe() string {
	if len(a.hosts) == 0 {
		return "no hosts"
	}
	var texts []string
	for _, h := range a.hosts {
		text := h.name
		if strings.HasPrefix(text, ".") {
			text = "*" + text
		}
		if h.port != "" {
			text = net.JoinHostPort(text, h.port)
		}
		if h.http {
			text += " (also over HTTP)"
		}
		texts = append(texts, text)
	}
	return "HTTPS to " + strings.Join(texts, ", ")
}
