// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// stream is the answer to a watch. A goroutine reads the frames that the API server sends. The
// world delivers them.
type stream struct {
	network *network
	of      *exchange
	cancel  context.CancelFunc
	// due is when the frame that was sent last is delivered, and silent is until when none is. Only
	// the world uses them.
	due, silent time.Time
	// closing means that the end of the stream is on its way.
	closing bool

	mu sync.Mutex // guards the fields below
	// sent are the frames that the world has not seen yet. ended is true if the last one has been
	// sent.
	sent  [][]byte
	ended bool
	// delivered is what the client has not read yet, and err is returned once it has.
	delivered []byte
	err       error
	// detach ends the wait for the end of the request's context.
	detach func() bool
	// ready has a value if delivered or err has changed.
	ready chan struct{}
}

func newStream(n *network, of *exchange, response *http.Response, cancel context.CancelFunc) *stream {
	s := &stream{network: n, of: of, cancel: cancel, ready: make(chan struct{}, 1)}
	n.mu.Lock()
	n.streams = append(n.streams, s)
	n.mu.Unlock()
	go s.read(response.Body, strings.Contains(response.Header.Get("Content-Type"), "protobuf"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach = context.AfterFunc(of.req.Context(), func() { s.end(of.req.Context().Err()) })
	return s
}

// read reads frames until the API server ends the watch.
func (s *stream) read(body io.ReadCloser, binaryFrames bool) {
	defer body.Close()
	frames := bufio.NewReader(body)
	for {
		frame, err := nextFrame(frames, binaryFrames)
		s.mu.Lock()
		if err != nil {
			s.ended = true
		} else {
			s.sent = append(s.sent, frame)
		}
		s.mu.Unlock()
		s.network.poke()
		if err != nil {
			return
		}
	}
}

// nextFrame reads an event of a watch: a line of JSON, or a length and that many bytes.
func nextFrame(r *bufio.Reader, binaryFrames bool) ([]byte, error) {
	if !binaryFrames {
		return r.ReadBytes('\n')
	}
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(frame, length[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// take returns the frames that the API server has sent since the last call.
func (s *stream) take() (frames [][]byte, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	frames, s.sent = s.sent, nil
	return frames, s.ended
}

// deliver gives a frame to the client.
func (s *stream) deliver(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.delivered = append(s.delivered, frame...)
		s.signal()
	}
}

// end ends the stream, for the client and for the API server. It may be called more than once.
func (s *stream) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
		s.signal()
	}
	detach := s.detach
	s.mu.Unlock()
	detach()
	s.cancel()
	n := s.network
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams = slices.DeleteFunc(n.streams, func(one *stream) bool { return one == s })
}

func (s *stream) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (n *network) streamsOf(c *process) []*stream {
	n.mu.Lock()
	defer n.mu.Unlock()
	var own []*stream
	for _, s := range n.streams {
		if c == nil || s.of.from == c {
			own = append(own, s)
		}
	}
	return own
}

// reader returns the body of the response for the client.
func (s *stream) reader() io.ReadCloser { return &streamReader{s} }

// streamReader is read by one goroutine at a time. Close may be called by another.
type streamReader struct{ *stream }

func (r *streamReader) Read(p []byte) (int, error) {
	for {
		r.mu.Lock()
		n, err := copy(p, r.delivered), r.err
		r.delivered = r.delivered[n:]
		r.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if err != nil {
			r.signal() // for the next call
			return 0, err
		}
		<-r.ready
	}
}

func (r *streamReader) Close() error {
	r.end(http.ErrBodyReadAfterClose)
	return nil
}
