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
	// maxAnswers bounds the questions that wait for an answer.
	maxAnswers = 512
	// maxFile bounds the file, in bytes.
	maxFile = 4 << 20
)

// browser is one that gets pushes, and the key with which it was subscribed.
type browser struct {
	webpush.Subscription
	Key   string    `json:"key"`
	KeyID string    `json:"key_id"` // changes with the secret of the key
	Since time.Time `json:"since"`
}

// answer is what one push lets its reader do, once.
type answer struct {
	Token     string    `json:"token"` // its SHA-256: the file opens nothing
	Endpoint  string    `json:"endpoint"`
	Remote    string    `json:"remote"`
	Thread    string    `json:"thread"`
	Question  string    `json:"question"`
	Decisions []string  `json:"decisions"`
	Until     time.Time `json:"until"`
}

// Store keeps the browsers that get pushes, and what the open ones may answer, in a file. Its methods are safe for
// concurrent use.
type Store struct {
	file string

	mu   sync.Mutex // guards the rest
	kept kept
}

type kept struct {
	Browsers []browser `json:"browsers"`
	Answers  []answer  `json:"answers"` // oldest first
}

// OpenStore reads the file; there may be none.
func OpenStore(file string) (*Store, error) {
	s := &Store{file: file}
	err := statefile.Read(file, "push subscriptions", maxFile, &s.kept)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("%w; remove it: each person turns notifications on again then", err)
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
	k.Answers = slices.DeleteFunc(k.Answers, func(a answer) bool { return a.Endpoint == endpoint })
}

// open lets the reader of a push answer, and forgets the oldest of too many.
func (s *Store) open(a answer, now time.Time) error {
	return s.change(func(k *kept) error {
		k.Answers = slices.DeleteFunc(k.Answers, func(a answer) bool { return !now.Before(a.Until) })
		if most := maxAnswers - 1; len(k.Answers) > most {
			k.Answers = slices.Delete(k.Answers, 0, len(k.Answers)-most)
		}
		k.Answers = append(k.Answers, a)
		return nil
	})
}

// find is what the reader with that token may answer, and its browser; false if there is none.
func (s *Store) find(token string, now time.Time) (answer, browser, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.kept.index(token, now)
	if at < 0 {
		return answer{}, browser{}, false
	}
	a := s.kept.Answers[at]
	of := slices.IndexFunc(s.kept.Browsers, func(b browser) bool { return b.Endpoint == a.Endpoint })
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

func sumOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// change changes what is kept, and writes it. What cannot be written has not happened.
func (s *Store) change(f func(*kept) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := kept{slices.Clone(s.kept.Browsers), slices.Clone(s.kept.Answers)}
	if err := f(&next); err != nil {
		return err
	}
	if err := statefile.Write(s.file, next); err != nil {
		return fmt.Errorf("cannot write %s: %w", s.file, err)
	}
	s.kept = next
	return nil
}
