// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// message is a kind of request. Faults are drawn for each kind, since a cluster makes a thousand
// requests for each binding.
type message string

const (
	messageRead    message = "read"
	messageWatch   message = "watch" // and what the API server sends on it
	messageBinding message = "binding"
	messageStatus  message = "status"
	messageLease   message = "lease"
	messageEvent   message = "event"
	messageWrite   message = "write" // any other
)

// message returns the kind of a request.
func (x *exchange) message() message {
	path := x.req.URL.Path
	switch {
	case x.isWatch():
		return messageWatch
	case x.req.Method == http.MethodGet:
		return messageRead
	case strings.HasSuffix(path, "/binding"):
		return messageBinding
	case strings.HasSuffix(path, "/status"):
		return messageStatus
	case strings.Contains(path, "/leases"):
		return messageLease
	case strings.Contains(path, "/events"):
		return messageEvent
	}
	return messageWrite
}

// often is how many of a thousand messages of a kind suffer at most from one fault.
var often = map[message]int{messageRead: 30, messageWatch: 30, messageBinding: 250, messageStatus: 100,
	messageLease: 30, messageEvent: 30, messageWrite: 150}

// fault is something that goes wrong with a message.
type fault string

const (
	// A lost request never reaches the API server.
	faultLost fault = "lost"
	// The request is executed, and its answer is lost.
	faultLostAnswer fault = "lost answer"
	// The request is executed, and the client notices only after up to a minute that no answer will
	// come.
	faultHung fault = "hung"
	// The API server has too much to do, or is broken: 429, 500, 503 or 504.
	faultBusy fault = "busy"
	// The API server does not accept a write: 403 by admission, 409 or 422.
	faultRefused fault = "refused"
	// Admission changes what is written, differently each time.
	faultChanged fault = "changed"
	// A write is executed a second time, later.
	faultTwice fault = "twice"
	// A message takes up to maxLate.
	faultLate fault = "late"
	// The client is killed once it has sent the request, which may be executed all the same.
	faultKilled fault = "killed"
	// A watch ends, with an error or without.
	faultCut fault = "cut"
	// A watch delivers nothing for up to maxLate.
	faultSilent fault = "silent"
)

// maxLate is how long a message takes at most.
const maxLate = 20 * time.Second

var (
	messages = slices.Sorted(maps.Keys(often))
	writes   = []message{messageBinding, messageEvent, messageLease, messageStatus, messageWrite}
	watches  = []message{messageWatch}
	// faults have the messages that can suffer from them.
	faults = map[fault][]message{
		faultLost: messages, faultLostAnswer: messages, faultHung: messages, faultBusy: messages, faultLate: messages,
		faultKilled: messages, faultRefused: writes, faultChanged: writes, faultTwice: writes, faultCut: watches,
		faultSilent: watches,
	}
)

// faultKey is the name of a fault of a kind of message, in plans and counts.
func faultKey(f fault, m message) string { return string(f) + " " + string(m) }

// faultRates returns, by name, all faults of all kinds of messages, and how many of a thousand
// messages suffer at most.
func faultRates() map[string]int {
	rates := map[string]int{}
	for f, of := range faults {
		for _, m := range of {
			rate := often[m]
			if f == faultKilled {
				rate = rate/10 + 1
			}
			rates[faultKey(f, m)] = rate
		}
	}
	return rates
}

// weather is how often messages suffer from faults now: out of a thousand, by name.
type weather map[string]int

// strikes draws whether a message suffers from a fault, and records it.
func (w *World) strikes(f fault, x *exchange) bool {
	key := faultKey(f, x.message())
	perMille := w.weather[key]
	if perMille == 0 || w.faults.IntN(1000) >= perMille {
		return false
	}
	w.counts["fault: "+key]++
	w.disturb(x)
	w.log.add("fault %s: %v", f, x)
	return true
}
