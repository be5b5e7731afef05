package config

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"codex-proxy/internal/strict"
)

// Images bounds the fetches of images for clients.
type Images struct {
	Fetch        bool
	AllowPrivate []netip.Prefix
	MaxBytes     int64 // of one image
	Timeout      time.Duration
}

// rawImages is the table [images].
type rawImages struct {
	Fetch        bool     `toml:"fetch"`
	AllowPrivate []prefix `toml:"allow_private"`
	MaxBytes     int64    `toml:"max_bytes"`
	Timeout      duration `toml:"timeout"`
}

// LoadImages validates [images] alone: the unit that fetches cannot read the
// workers' files and the API keys.
func LoadImages(path string, set []string) (*Images, error) {
	r, err := load(path, set)
	if err != nil {
		return nil, err
	}
	images, err := r.Images.validate()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &images, nil
}

// load reads the file at path and lets each of set override it.
func load(path string, set []string) (raw, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return raw{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	r := defaults()
	r.lines = strict.LinesOf(text)
	if err := strict.Decode(path, text, &r); err != nil {
		return raw{}, err
	}
	for _, s := range set {
		if err := override(&r, s); err != nil {
			return raw{}, err
		}
	}
	if len(r.CORSOrigins) > 0 {
		r.pages = pagesIn(path, text, set)
	}
	return r, nil
}

func (r rawImages) validate() (Images, error) {
	switch {
	case r.MaxBytes < 1024 || r.MaxBytes > 20<<20:
		return Images{}, fmt.Errorf("images.max_bytes = %d: must be between 1024 and %d bytes", r.MaxBytes, 20<<20)
	case r.Timeout.Duration < 100*time.Millisecond || r.Timeout.Duration > time.Minute:
		return Images{}, fmt.Errorf("images.timeout = %q: must be between 100ms and 1m", r.Timeout.Duration)
	}
	images := Images{Fetch: r.Fetch, MaxBytes: r.MaxBytes, Timeout: r.Timeout.Duration}
	for _, p := range r.AllowPrivate {
		images.AllowPrivate = append(images.AllowPrivate, netip.Prefix(p))
	}
	return images, nil
}
