package codexhome

import (
	"context"
	"fmt"

	"codex-proxy/codex/versions"
)

// VersionOf asks a codex for its version, which is an accepted one. home is an empty directory, or a home of codex.
func VersionOf(ctx context.Context, program, home string) (string, error) {
	return codex{path: program, home: home, dir: home}.version(ctx, versions.Oldest)
}

// WriteSchema has a codex write the schema of its protocol to the directory out.
func WriteSchema(ctx context.Context, program, home, out string) error {
	_, talk, err := codex{path: program, home: home, dir: home}.run(ctx, "app-server", "generate-json-schema",
		"--experimental", "--out", out)
	if err != nil {
		return fmt.Errorf("codex does not write its schema (%w): %s", err, lastLine(talk))
	}
	return nil
}
