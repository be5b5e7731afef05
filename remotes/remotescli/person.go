package remotescli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"codex-proxy/internal/listing"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/transcript"
)

// Person is how a person takes part in a remote without a terminal.
func (r *Remotes) Person(name, version string, readOnly bool) (transcript.Remote, error) {
	if err := r.known(name); err != nil {
		return transcript.Remote{}, err
	}
	return transcript.Remote{Name: name, Owners: r.Socket(name), Viewers: paths.RemoteViewerSocket(name),
		Version: version, ReadOnly: readOnly}, nil
}

// errShown ends a transcript that is not followed.
var errShown = errors.New("shown")

// Transcript prints a thread of a remote; with Watch it goes on with every change.
func Transcript(ctx context.Context, r *Remotes, of transcript.Remote) error {
	show := newScroll(r.Stdout).show
	if r.JSON {
		show = json.NewEncoder(r.Stdout).Encode
	}
	err := of.Follow(ctx, r.Thread, func(u transcript.Update) error {
		if err := show(u); err != nil || r.Watch {
			return err
		}
		return errShown
	})
	if errors.Is(err, errShown) || r.Watch && ctx.Err() != nil {
		return nil
	}
	return err
}

// scroll prints the items of a thread as they are complete enough to be read.
type scroll struct {
	to      io.Writer
	printed map[string]string // the text of each item that was printed, up to maxPrinted
	order   []string          // their IDs, oldest first
	asked   map[string]bool   // the questions that were printed, and wait
}

func newScroll(to io.Writer) *scroll {
	return &scroll{to: to, printed: map[string]string{}, asked: map[string]bool{}}
}

// show implements the printing of one update. Only the end of an item that grows is printed.
func (s *scroll) show(v any) error {
	u, _ := v.(transcript.Update)
	var text strings.Builder
	for _, i := range u.Items {
		whole := lines(i.Text, "  ")
		if i.Output != "" {
			whole += lines(i.Output, "    ")
		}
		if i.Exit != nil {
			whole += fmt.Sprintf("  exit status %d\n", *i.Exit)
		}
		before, known := s.printed[i.ID]
		rest, grows := strings.CutPrefix(whole, strings.TrimSuffix(before, "\n"))
		switch {
		case !known || !grows:
			fmt.Fprintf(&text, "%s\n%s", i.Kind, whole)
		default:
			text.WriteString(strings.TrimPrefix(rest, "\n"))
		}
		s.remember(i.ID, whole)
	}
	before := s.asked
	s.asked = map[string]bool{}
	for _, q := range u.Questions {
		if s.asked[q.ID] = true; before[q.ID] {
			continue
		}
		fmt.Fprintf(&text, "waits for approval of %s\n%s%s", listing.Printable(q.ID), lines(q.Text, "  "),
			lines(q.Reason, "  "))
		if q.Directory != "" {
			fmt.Fprintf(&text, "  in %s\n", listing.Printable(q.Directory))
		}
		if !slices.Contains(q.Decisions, "accept") {
			fmt.Fprintln(&text, "  cannot be approved here: codex-proxy attach shows all of it")
		}
	}
	_, err := io.WriteString(s.to, text.String())
	return err
}

// maxPrinted bounds the items that are followed as they grow.
const maxPrinted = 1000

func (s *scroll) remember(id, text string) {
	if _, known := s.printed[id]; !known {
		s.order = append(s.order, id)
	}
	s.printed[id] = text
	if len(s.order) > maxPrinted {
		delete(s.printed, s.order[0])
		s.order = s.order[1:]
	}
}

// lines are the lines of a text, each indented. Whoever reads them may approve them: no sign is left out.
func lines(text, indent string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(indent + listing.Visible(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return out.String()
}
