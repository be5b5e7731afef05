package push

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"codex-proxy/console/webpush"
	"codex-proxy/internal/statefile"
	"codex-proxy/workers/control"
)

const (
	// maxOfKey and maxBrowsers bound the browsers with one key, and all.
	maxOfKey    = 16
	maxBrowsers = 256
	// maxOpen bounds the questions that one browser may answer.
	maxOpen = 16
	// maxFile bounds the file, in bytes.
	maxFile = 16 << 20
)

// browser is one that gets pushes, and the key with which it was subscribed.
type browser struct {
	webpush.Subscription
	Key   string    `json:"key"`
	KeyID string    `json:"key_id"` // changes with the secret of the key
	Since time.Time `json:"since"`
}

// answer is the right of the reader of one push to answer once.
type answer struct {
	Token     string    `json:"token"`   // its SHA-256: the file opens nothing
	Browser   string    `json:"browser"` // the SHA-256 of its endpoint
	Remote    string    `json:"remote"`
	Thread    string    `json:"thread"`
	Question  string    `json:"question"`
	Decisions []string  `json:"decisions"`
	Until     time.Time `json:"until"`
}

// Store keeps the browsers that get pushes, and the answers that open pushes allow, in a file. Its methods are safe for
// concurrent use.
type Store struct {
	file string

	mu   sync.Mutex // guards the rest
	kept kept
}

type kept struct {
	PublicKey string    `json:"public_key"` // with which the browsers were subscribed
	Browsers  []browser `json:"browsers"`
	Answers   []answer  `json:"answers"` // newest first
}

// OpenStore reads the file; there may be none. It forgets the browsers that were subscribed with another public key:
// their push services take no message of this one.
func OpenStore(file, publicKey string) (*Store, error) {
	s := &Store{file: file, kept: kept{PublicKey: publicKey}}
	err := statefile.Read(file, "push subscriptions", maxFile, &s.kept)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("%w; remove it: each person turns notifications on again then", err)
	case s.kept.PublicKey != publicKey:
		s.kept = kept{PublicKey: publicKey}
	}
	return s, nil
}

// all are the browsers.
func (s *Store) all() []browser {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept.Browsers)
}

// of reports whether the browser was subscribed with that key, and not with an earlier one of the same name.
func (b browser) of(key control.ConsoleKey) bool { return b.Key == key.Name && b.KeyID == key.ID }

// has reports whether a browser with that endpoint is there, with that key.
func (s *Store) has(endpoint string, key control.ConsoleKey) bool {
	return slices.ContainsFunc(s.all(), func(b browser) bool { return b.Endpoint == endpoint && b.of(key) })
}

// room refuses a further browser of a key that has as many as it may.
func (s *Store) room(endpoint string, key control.ConsoleKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.room(endpoint, key)
}

func (k kept) room(endpoint string, key control.ConsoleKey) error {
	all, own := 0, 0
	for _, b := range k.Browsers {
		if b.Endpoint == endpoint { // it takes its own place
			continue
		}
		if all++; b.of(key) {
			own++
		}
	}
	switch {
	case own >= maxOfKey:
		return fmt.Errorf("%d browsers get the notifications of the key %s, and no more can: turn them off in one",
			maxOfKey, key.Name)
	case all >= maxBrowsers:
		return fmt.Errorf("%d browsers get notifications, and no more can: turn them off in one", maxBrowsers)
	}
	return nil
}

// add puts a browser in the place of one with the same endpoint.
func (s *Store) add(b browser) error {
	return s.change(func(k *kept) error {
		if err := k.room(b.Endpoint, control.ConsoleKey{Name: b.Key, ID: b.KeyID}); err != nil {
			return err
		}
		k.remove(b.Endpoint)
		k.Browsers = append(k.Browsers, b)
		return nil
	})
}

// remove forgets a browser, with all that it may answer.
func (s *Store) remove(endpoint string) error {
	return s.change(func(k *kept) error {
		k.remove(endpoint)
		return nil
	})
}

func (k *kept) remove(endpoint string) {
	k.Browsers = slices.DeleteFunc(k.Browsers, func(b browser) bool { return b.Endpoint == endpoint })
	of := sumOf(endpoint)
	k.Answers = slices.DeleteFunc(k.Answers, func(a answer) bool { return a.Browser == of })
}

// open lets the readers of a notice answer, and forgets the oldest of too many of a browser.
func (s *Store) open(fresh []answer, now time.Time) error {
	if len(fresh) == 0 {
		return nil
	}
	return s.change(func(k *kept) error {
		of := map[string]int{}
		k.Answers = slices.DeleteFunc(slices.Concat(fresh, k.Answers), func(a answer) bool {
			of[a.Browser]++
			return of[a.Browser] > maxOpen || !now.Before(a.Until)
		})
		return nil
	})
}

// unasked are the questions that the browser may not answer yet.
func (s *Store) unasked(endpoint string, n Notice, questions []Question) []Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := sumOf(endpoint)
	return slices.DeleteFunc(slices.Clone(questions), func(q Question) bool {
		return slices.ContainsFunc(s.kept.Answers, func(a answer) bool {
			return a.Browser == of && a.Remote == n.Remote && a.Thread == n.Thread && a.Question == q.ID
		})
	})
}

// find returns the answer that a token allows, and its browser; false if no open push has the token.
func (s *Store) find(token string, now time.Time) (answer, browser, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.kept.index(token, now)
	if at < 0 {
		return answer{}, browser{}, false
	}
	a := s.kept.Answers[at]
	of := slices.IndexFunc(s.kept.Browsers, func(b browser) bool { return sumOf(b.Endpoint) == a.Browser })
	if of < 0 {
		return answer{}, browser{}, false
	}
	return a, s.kept.Browsers[of], true
}

// index finds a token by its hash, which nobody can guess step by step.
func (k kept) index(token string, now time.Time) int {
	sum := sumOf(token)
	return slices.IndexFunc(k.Answers, func(a answer) bool { return a.Token == sum && now.Before(a.Until) })
}

// take uses a token up; false if it was used before.
func (s *Store) take(token string, now time.Time) (is bool, err error) {
	err = s.change(func(k *kept) error {
		at := k.index(token, now)
		if is = at >= 0; is {
			k.Answers = slices.Delete(k.Answers, at, at+1)
		}
		return nil
	})
	return is && err == nil, err
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// change changes the content and writes it. If it cannot be written, nothing has changed.
func (s *Store) change(f func(*kept) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := kept{s.kept.PublicKey, slices.Clone(s.kept.Browsers), slices.Clone(s.kept.Answers)}
	if err := f(&next); err != nil {
		return err
	}
	if err := statefile.Write(s.file, next); err != nil {
		return fmt.Errorf("cannot write %s: %w", s.file, err)
	}
	s.kept = next
	return nil
}
