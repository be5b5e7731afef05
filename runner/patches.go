package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/patch"
	"codex-proxy/runner/paths"
)

// checkPatch refuses a malformed patch, or one that changes more than the files of a tree. The session finds out
// whether it applies to the commit.
func checkPatch(text string) error {
	if text == "" {
		return nil
	}
	_, err := patch.Parse([]byte(text))
	refused, ok := errors.AsType[*patch.Error](err)
	if !ok {
		return err
	}
	return refuse(wire.PatchInvalid, refused.Remedy, "%s", strings.TrimSuffix(refused.Error(), ": "+refused.Remedy))
}

// hash names a patch; it is "" without a patch.
func hash(patch string) string {
	if patch == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(patch))
	return hex.EncodeToString(sum[:])
}

// keepPatch writes the patch of a session.
func (r *Runner) keepPatch(id, text string) error {
	if err := os.WriteFile(filepath.Join(r.StateDir, paths.SessionDir(id), paths.Patch), []byte(text),
		0o600); err != nil {
		r.removeSession(id)
		return fmt.Errorf("cannot keep the patch of a session: %w", err)
	}
	return nil
}
