// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"hash"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// pseudonymBytes is the length of a pseudonym before it is encoded: two of a million strings have
// the same one with a probability of 1 in 10 millions.
const pseudonymBytes = 8

// encoding gives pseudonyms the characters that all names and labels may have.
var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// hugePages are the names of resources that Kubernetes makes of a size.
var hugePages = regexp.MustCompile(`^hugepages-[0-9]+[KMGTP]i$`)

// names gives strings their pseudonyms. The key is random and is never written: who has the
// pseudonyms cannot find out the strings, not even by trying. A string has one pseudonym, whatever
// it is the name or the value of. So all that is equal stays equal, and selectors select what they
// did.
type names struct {
	mac  hash.Hash
	sum  []byte
	memo map[string]string
	// given has the string of each pseudonym. nil: the strings are not recorded.
	given map[string]string
	// numbers are kept: see findNumbers.
	numbers sets.Set[string]
}

func newNames(numbers sets.Set[string]) *names {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return &names{mac: hmac.New(sha256.New, key), memo: map[string]string{}, numbers: numbers}
}

// of returns what stands for a string: a pseudonym, or the string itself if it is no user's. The
// parts of a name with a domain, such as example.com/name, have their own pseudonyms.
func (n *names) of(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := n.memo[s]; ok {
		return known
	}
	var name string
	if domain, rest, ok := strings.Cut(s, "/"); words().Has(s) || n.numbers.Has(s) || hugePages.MatchString(s) {
		name = s
	} else if ok && domain != "" && rest != "" {
		name = n.of(domain) + "/" + n.of(rest)
	} else {
		name = n.pseudonym(s)
	}
	n.memo[s] = name
	return name
}

// pseudonym returns a name that begins with a letter.
func (n *names) pseudonym(s string) string {
	n.mac.Reset()
	_, _ = n.mac.Write([]byte(s)) // it never fails
	n.sum = n.mac.Sum(n.sum[:0])
	name := "x" + encoding.EncodeToString(n.sum[:pseudonymBytes])
	if n.given != nil {
		n.given[name] = s
	}
	return name
}

// ofImage returns what stands for the name of an image. ImageLocality adds the tag latest to a name
// in a pod that has none, and this must not happen to a pseudonym.
func (n *names) ofImage(image string) string {
	if image == "" {
		return ""
	}
	return n.pseudonym(image) + ":x"
}

// ofPodImage is ofImage for an image that a pod names.
func (n *names) ofPodImage(image string) string {
	if image != "" && strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		image += ":latest"
	}
	return n.ofImage(image)
}
