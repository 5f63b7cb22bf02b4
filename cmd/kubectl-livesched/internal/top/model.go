// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// model is the state of the view.
type model struct {
	read     func() tea.Msg
	interval time.Duration

	data Data
	// loaded means that something was read.
	loaded        bool
	width, height int // of the terminal; a height of 0 is unlimited
	colors        bool
	sort          order
	offset        int // lines that are scrolled away
	paused, help  bool
}

// tick asks for the next read.
type tick struct{}

// Run shows the view until the user quits or the context is done.
func Run(ctx context.Context, in io.Reader, out io.Writer, read Read, interval time.Duration, colors bool) error {
	m := newModel(ctx, read, interval, colors)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen()).Run()
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return err
}

// Once returns one frame with all lines.
func Once(data Data, width int, colors bool) string {
	m := model{data: data, loaded: true, width: width, colors: colors}
	return m.text()
}

func newModel(ctx context.Context, read Read, interval time.Duration, colors bool) model {
	return model{read: func() tea.Msg { return read(ctx) }, interval: interval, colors: colors, width: 80, height: 24}
}

// Init reads for the first time.
func (m model) Init() tea.Cmd { return m.read }

// Update changes the state by a message.
func (m model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case Data:
		m.take(message)
		return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return tick{} })
	case tick:
		if m.paused {
			return m, nil
		}
		return m, m.read
	case tea.KeyMsg:
		return m.press(message.String())
	}
	m.scroll(0)
	return m, nil
}

// take keeps what the last read found of the parts that this one could not read.
func (m *model) take(data Data) {
	if data.Profiles == nil {
		data.Profiles = m.data.Profiles
	}
	if data.Decisions == nil {
		data.Decisions = m.data.Decisions
	}
	m.data, m.loaded = data, true
	m.scroll(0)
}

// press handles a key.
func (m model) press(key string) (tea.Model, tea.Cmd) {
	switch key {
	case "q", "ctrl+c", "esc":
		if m.help && key == "esc" {
			m.help = false
			return m, nil
		}
		return m, tea.Quit
	case "p", " ":
		m.paused = !m.paused
		if !m.paused {
			return m, m.read
		}
	case "s":
		m.sort = (m.sort + 1) % orders
	case "?", "h":
		m.help = !m.help
	case "up", "k":
		m.scroll(-1)
	case "down", "j":
		m.scroll(1)
	case "pgup":
		m.scroll(-m.room())
	case "pgdown":
		m.scroll(m.room())
	case "home", "g":
		m.offset = 0
	case "end", "G":
		m.scroll(len(m.body()))
	}
	return m, nil
}

// scroll moves the lines, within the text.
func (m *model) scroll(by int) {
	m.offset = min(max(m.offset+by, 0), max(len(m.body())-m.room(), 0))
}

// order is what profiles are sorted by.
type order int

const (
	byPending order = iota
	byName
	byPlaced
	byReload
	orders
)

func (o order) String() string {
	switch o {
	case byPending:
		return "pending"
	case byName:
		return "name"
	case byPlaced:
		return "placed/s"
	case byReload:
		return "reloaded"
	}
	return fmt.Sprintf("order(%d)", int(o))
}
