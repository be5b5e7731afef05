package apitest

import (
	"net/http"
	"strings"
	"testing"
)

// Metric is the value of a sample now.
func Metric(t testing.TB, r *Rig, name string) string {
	t.Helper()
	for line := range strings.Lines(Text(t, r.Do(t, http.MethodGet, "/metrics", ""))) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
