// Package journal writes log records so that journald files each under its
// priority.
package journal

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
)

// Handler is a slog text handler whose lines carry the priority prefix of
// sd-daemon(3) when standard error leads to the journal, and a time otherwise.
type Handler struct {
	text slog.Handler // writes into line
	out  *output
}

// output is shared by all handlers derived from one.
type output struct {
	mu       sync.Mutex
	line     bytes.Buffer
	w        io.Writer
	prefixed bool
}

// NewHandler writes to w. systemd sets JOURNAL_STREAM for what leads to the journal.
func NewHandler(w io.Writer, level slog.Level) *Handler {
	out := &output{w: w, prefixed: os.Getenv("JOURNAL_STREAM") != ""}
	options := &slog.HandlerOptions{Level: level}
	if out.prefixed {
		options.ReplaceAttr = withoutTimeAndLevel
	}
	return &Handler{text: slog.NewTextHandler(&out.line, options), out: out}
}

// withoutTimeAndLevel drops what the journal keeps in fields of its own.
func withoutTimeAndLevel(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

// Handle implements slog.Handler: one Write a record.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.line.Reset()
	if h.out.prefixed {
		h.out.line.WriteString(prefix(r.Level))
	}
	if err := h.text.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.out.w.Write(h.out.line.Bytes())
	return err
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{text: h.text.WithAttrs(attrs), out: h.out}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{text: h.text.WithGroup(name), out: h.out}
}

// prefix is SD_ERR, SD_WARNING, SD_INFO or SD_DEBUG.
func prefix(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "<3>"
	case l >= slog.LevelWarn:
		return "<4>"
	case l >= slog.LevelInfo:
		return "<6>"
	default:
		return "<7>"
	}
}
