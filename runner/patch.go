package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/patch"
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
	return wire.Refuse(wire.PatchInvalid, refused.Remedy, "%s",
		strings.TrimSuffix(refused.Error(), ": "+refused.Remedy))
}

// hash names a patch; it is "" without a patch.
func hash(patch string) string {
	if patch == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(patch))
	return hex.EncodeToString(sum[:])
}
