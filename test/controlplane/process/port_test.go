// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"net"
	"strconv"
	"testing"
)

func TestAFreePortIsNotThatOfAnOutgoingConnection(t *testing.T) {
	for range 50 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if port < lowestPort || port >= highestPort {
			t.Errorf("port %d", port)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
}
