package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"codex-proxy/notify"
	"codex-proxy/runner/patch"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// sessionDiff prints the changes that the commands of a session made in its workspace. It runs as a command of the
// session, in its sandbox; see session.DiffStep.
func sessionDiff(ctx context.Context, argument string, _ *notify.Notifier) error {
	order, err := session.ParseDiffOrder(argument)
	if err != nil {
		return err
	}
	began, err := io.ReadAll(io.LimitReader(os.Stdin, patch.MaxBytes))
	if err != nil {
		return fmt.Errorf("cannot read the patch of the session: %w", err)
	}
	diff := workspace.Diff{Tree: paths.Workspace, Patch: began}
	if order.Commit != "" {
		diff.Source = workspace.Source{Mirror: filepath.Join(paths.Repository, paths.Mirror), Commit: order.Commit}
	}
	return printDiff(ctx, diff, order.Begin, os.Stdout, os.Stderr)
}

func printDiff(ctx context.Context, diff workspace.Diff, begin bool, stdout, stderr io.Writer) error {
	sum, size := sha256.New(), new(size)
	all, err := diff.Write(ctx, begin, io.MultiWriter(stdout, sum, size))
	if err != nil {
		return err
	}
	return json.NewEncoder(stderr).Encode(session.DiffReport{
		Object: all.Object, Begin: all.Begin, Bytes: int64(*size), SHA256: hex.EncodeToString(sum.Sum(nil)),
		Nested: all.Nested,
	})
}

// size counts bytes.
type size int64

func (s *size) Write(p []byte) (int, error) {
	*s += size(len(p))
	return len(p), nil
}
