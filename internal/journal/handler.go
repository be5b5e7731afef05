// Package journal writes log records into the journal, with fields to query it by.
package journal

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
)

// Identifiers of the programs in the journal (SYSLOG_IDENTIFIER of
// systemd.journal-fields(7)). All programs of a package have the same one.
const (
	Proxy  = "codex-proxy"
	Runner = "codex-runner"
)

// NewHandler returns the handler of the program with that identifier. It uses the
// journal's native protocol if standard error is connected to the journal
// (JOURNAL_STREAM of systemd.exec(5)), and writes JSON to stderr otherwise.
// Entries that cannot be sent go to stderr, too. A logging goroutine does not wait for
// a journal that stands still: those entries are lost.
func NewHandler(program string, stderr io.Writer, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if native, err := journal.StderrIsJournalStream(); err != nil || !native {
		return slog.NewJSONHandler(stderr, options)
	}
	toJournal := &native{path: nativeSocket, program: program}
	return newHandler(program, toJournal.send, slog.NewJSONHandler(newStream(stderr), options), level)
}

// handler writes each record as one entry.
type handler struct {
	out   *output
	plain slog.Handler // for entries that cannot be sent
	text  slog.Handler // writes the attributes into out.line, for people
	group string       // the prefix of the next attributes' names: "A_B_"
	with  []field
}

// output is shared by all handlers derived from one.
type output struct {
	program string
	send    sender
	events  map[string]event // by message
	mu      sync.Mutex
	line    bytes.Buffer
	vars    []field
}

// sender sends an entry: its MESSAGE, its PRIORITY and its other fields. It does not
// keep vars.
type sender func(message string, p journal.Priority, vars []field) error

type field struct{ name, value string }

func newHandler(program string, send sender, plain slog.Handler, level slog.Leveler) *handler {
	out := &output{program: program, send: send, events: map[string]event{}}
	for _, e := range allEvents() {
		out.events[e.Message] = e
	}
	text := slog.NewTextHandler(&out.line, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutBuiltIns})
	return &handler{out: out, plain: plain, text: text}
}

// withoutBuiltIns drops the attributes that the journal has in fields of its own.
func withoutBuiltIns(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.line.Reset()
	if err := h.text.Handle(ctx, r); err != nil {
		return err
	}
	message := strings.TrimSpace(r.Message + " " + h.out.line.String())
	if h.out.send(message, priority(r.Level), h.vars(r)) == nil {
		return nil
	}
	return h.plain.Handle(ctx, r)
}

// vars are the entry's fields besides MESSAGE and PRIORITY. The caller holds the lock;
// the next call overwrites the result.
func (h *handler) vars(r slog.Record) []field {
	vars := append(h.out.vars[:0], field{"SYSLOG_IDENTIFIER", h.out.program})
	if e, known := h.out.events[r.Message]; known {
		vars = append(vars, field{"MESSAGE_ID", e.ID}, field{"CODEX_EVENT", e.Name})
	}
	vars = append(vars, h.with...)
	r.Attrs(func(a slog.Attr) bool {
		vars = appendFields(vars, h.group, a)
		return true
	})
	h.out.vars = vars
	return vars
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	derived.text, derived.plain, derived.with = h.text.WithAttrs(attrs), h.plain.WithAttrs(attrs), slices.Clip(h.with)
	for _, a := range attrs {
		derived.with = appendFields(derived.with, h.group, a)
	}
	return &derived
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	derived := *h
	derived.text, derived.plain, derived.group = h.text.WithGroup(name), h.plain.WithGroup(name),
		h.group+fieldName(name)+"_"
	return &derived
}

// appendFields adds the attribute, or the attributes of its group.
func appendFields(fields []field, group string, a slog.Attr) []field {
	value := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
	case value.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += fieldName(a.Key) + "_"
		}
		for _, inner := range value.Group() {
			fields = appendFields(fields, group, inner)
		}
	case group == "" && a.Key == "key": // the name of an API key, never the key itself
		fields = append(fields, field{"CODEX_API_KEY_NAME", value.String()})
	default:
		fields = append(fields, field{ownField(group, a.Key), value.String()})
	}
	return fields
}

// names are the forms of a key: alone, and as a field of ours.
type names struct{ bare, field string }

func ownField(group, key string) string {
	if group == "" {
		return namesOf(key).field
	}
	return "CODEX_" + group + fieldName(key)
}

func fieldName(key string) string { return namesOf(key).bare }

// namesOf caches its results: the keys are few, and every request has them.
func namesOf(key string) names {
	known.RLock()
	n, ok := known.names[key]
	known.RUnlock()
	if !ok {
		n = names{allowed(key), "CODEX_" + allowed(key)}
		known.Lock()
		defer known.Unlock()
		known.names[key] = n
	}
	return n
}

var known = struct {
	sync.RWMutex
	names map[string]names
}{names: map[string]names{}}

// allowed maps key to the characters of systemd.journal-fields(7): A-Z, 0-9 and _.
func allowed(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		default:
			return '_'
		}
	}, key)
}

func priority(l slog.Level) journal.Priority {
	switch {
	case l >= slog.LevelError:
		return journal.PriErr
	case l >= slog.LevelWarn:
		return journal.PriWarning
	case l >= slog.LevelInfo:
		return journal.PriInfo
	default:
		return journal.PriDebug
	}
}
