package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// longestPointer is more than any pointer of Git LFS has, in bytes.
const longestPointer = 1 << 10

// isPointerTo reports whether a pointer of Git LFS is the one of a file's content.
func isPointerTo(pointer []byte, file string) bool {
	if len(pointer) > longestPointer || !bytes.HasPrefix(pointer, []byte("version https://git-lfs.github.com/spec/")) {
		return false
	}
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	content, err := os.Open(file)
	if err != nil {
		return false
	}
	defer content.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return false
	}
	return bytes.Contains(pointer, []byte("\noid sha256:"+hex.EncodeToString(sum.Sum(nil))+"\n"))
}
