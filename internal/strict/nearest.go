package strict

import "codex-proxy/internal/nearest"

// Nearest returns the candidate that key is most likely a slip of, or "" when none is close.
func Nearest(key string, candidates []string) string {
	for _, name := range nearest.To(key, candidates, 1) {
		return name
	}
	return ""
}
