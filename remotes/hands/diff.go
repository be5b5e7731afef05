package hands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codex-proxy/runner/session"
)

// MostChanges bounds the changes of a workspace that go through this process, in bytes.
const MostChanges = 5 << 20

// ErrTooLarge means that a workspace has more.
var ErrTooLarge = fmt.Errorf("the changes have more than %d MiB", MostChanges>>20)

// longestChanges bounds the time in which they are found out.
const longestChanges = time.Minute

// Changes has the changes of the workspace printed, as by session.DiffStep, while commands run. begin includes those
// that the session began with.
func (h *Hands) Changes(ctx context.Context, begin bool) (stdout, stderr []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longestChanges, ErrSilent)
	defer cancel()
	if h.Elsewhere != nil {
		return nil, nil, fmt.Errorf("the hands are at %s: take the changes there", h.Elsewhere.URL)
	}
	s, err := h.Client.Session(ctx, h.Session())
	if err != nil {
		return nil, nil, err
	}
	order := session.DiffOrder{Commit: s.Commit, Begin: begin}
	ended, err := h.Execute(ctx, Process{Own: true, Cap: MostChanges, Command: Command{Dir: "/", Argv: order.Args()}})
	switch {
	case err != nil:
		return nil, nil, err
	case ended.Status != 0:
		return nil, nil, fmt.Errorf("cannot find out the changes: %.1000s", strings.TrimSpace(string(ended.Stderr)))
	case ended.Cut:
		return nil, nil, fmt.Errorf("%w: codex-runner diff %s prints them when no command of the session runs",
			ErrTooLarge, h.Session())
	}
	return ended.Stdout, ended.Stderr, nil
}
