// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net"
	"slices"
	"sync"
)

// fairListener limits the number of open connections, and shares them fairly by source address. If
// there are as many as allowed, a new connection takes the place of the oldest one of the source
// that has most, provided that this source still has at least as many as the new one's. Otherwise,
// the new connection is closed. So a source that floods the port displaces only itself.
//
// One goroutine calls Accept; any goroutine closes connections.
type fairListener struct {
	net.Listener
	limit int

	mu   sync.Mutex                // guards open
	open map[string][]*countedConn // by source address, the oldest first; no empty lists
}

func newFairListener(listener net.Listener, limit int) *fairListener {
	return &fairListener{Listener: listener, limit: limit, open: map[string][]*countedConn{}}
}

// Accept returns the next connection that is within the limit.
func (f *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		counted := &countedConn{Conn: conn, listener: f, source: source(conn)}
		displaced, ok := f.add(counted)
		if displaced != nil {
			_ = displaced.Conn.Close() // its reader and its writer get an error
		}
		if ok {
			return counted, nil
		}
		_ = conn.Close()
	}
}

// add adds a connection, and removes another one for it if it must. It reports whether the
// connection was added.
func (f *fairListener) add(conn *countedConn) (displaced *countedConn, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	total, most := 0, ""
	for source, conns := range f.open {
		if total += len(conns); len(conns) > len(f.open[most]) {
			most = source
		}
	}
	if total >= f.limit {
		if len(f.open[most]) <= len(f.open[conn.source])+1 {
			return nil, false
		}
		displaced = f.open[most][0]
		f.removeLocked(displaced)
	}
	f.open[conn.source] = append(f.open[conn.source], conn)
	return displaced, true
}

func (f *fairListener) remove(conn *countedConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeLocked(conn)
}

// removeLocked removes a connection. It may have been removed before.
func (f *fairListener) removeLocked(conn *countedConn) {
	conns := slices.DeleteFunc(f.open[conn.source], func(c *countedConn) bool { return c == conn })
	if len(conns) == 0 {
		delete(f.open, conn.source)
		return
	}
	f.open[conn.source] = conns
}

// source returns the address of the peer, without its port.
func source(conn net.Conn) string {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// countedConn is a connection that counts until it is closed or displaced.
type countedConn struct {
	net.Conn
	listener *fairListener
	source   string
}

func (c *countedConn) Close() error {
	c.listener.remove(c)
	return c.Conn.Close()
}
