package remotes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/unixtime"
	"codex-proxy/remotes/codexthread"
)

// threadID is the form of codex's ids, which names do not have.
var threadID = lazyregexp.New(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Find returns the id of the thread with that name. An id stands for itself.
func (m *Manager) Find(ctx context.Context, name string) (id string, err error) {
	l, err := m.linked()
	if err != nil {
		return "", err
	}
	return l.find(ctx, name)
}

func (l *codexConn) find(ctx context.Context, name string) (id string, err error) {
	if threadID.MatchString(name) {
		return name, nil
	}
	all, err := l.list(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot list the threads: %w", err)
	}
	found := slices.DeleteFunc(slices.Clone(all), func(t codexthread.Thread) bool { return t.Name != name })
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no thread has the name %q: %s", name, namesOf(all))
	case 1:
		return found[0].ID, nil
	}
	var which []string
	for _, t := range found {
		which = append(which, t.ID+used(t))
	}
	return "", fmt.Errorf("%d threads have the name %q; give the id of one: %s", len(found), name,
		strings.Join(which, "; "))
}

// used is the time of the last use of a thread, if codex knows.
func used(t codexthread.Thread) string {
	at := unixtime.Of(t.Updated)
	if at.IsZero() {
		return ""
	}
	return ", used " + at.Format("2006-01-02 15:04 UTC")
}

// maxNames bounds the names in an error.
const maxNames = 8

func namesOf(all []codexthread.Thread) string {
	var names []string
	for _, t := range all {
		if t.Name != "" && !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return "none has a name yet (/rename gives one)"
	}
	more := ""
	if len(names) > maxNames {
		names, more = names[:maxNames], ", …"
	}
	return "there are " + strings.Join(names, ", ") + more
}

// The bounds of a list of threads.
const (
	threadsPage = 100
	maxThreads  = 10_000
)

// list returns the threads, the one that was used last first.
func (l *codexConn) list(ctx context.Context) (all []codexthread.Thread, err error) {
	for cursor := ""; len(all) < maxThreads; {
		var page threadListResult
		err := l.c.Call(ctx, "thread/list", threadListParams{Limit: threadsPage, Sort: "updated_at", Cursor: cursor},
			&page)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
	return all, errors.New("there are too many")
}
