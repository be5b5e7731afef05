package dependencies

import (
	"context"
	"strconv"
	"strings"

	"codex-proxy/cmd/internal/dependency"
)

// claims are what a dependency needs for itself, in words.
type claims struct {
	ports, lock string
	faults      []string // what other processes hold
}

// claims looks for the processes that hold what the dependency needs.
func (d *Dependencies) claims(_ context.Context, s *dependency.Settings) (claims, error) {
	var ports []string
	for _, port := range s.Ports {
		ports = append(ports, strconv.Itoa(port))
	}
	return claims{ports: strings.Join(ports, ", "), lock: s.Lock}, nil
}
