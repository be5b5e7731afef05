package runner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/job"
	"codex-proxy/runner/store"
)

// A fetch with a credential follows no redirection, which git reports as a failure.
func TestRedirection(t *testing.T) {
	for text, want := range map[string]string{
		"The requested URL returned error: 302": "write the URL that the server redirects to",
		"The requested URL returned error: 503": "see that the URL is right",
	} {
		err := runner.FailureOf(store.Repository{URL: originURL}, &job.Failure{Code: job.Failed, Text: "git ls-remote: fatal: " + text})
		assertCode(t, wire.RepositoryFailed, err)
		assert.ErrorContains(t, err, originURL+" cannot be fetched: git ls-remote: fatal: "+text+": "+want)
	}
}
