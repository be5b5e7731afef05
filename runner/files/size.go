package files

import (
	"io/fs"
	"path/filepath"
)

// Size is the size of all files of a session, in bytes.
func (f Files) Size(id string) (bytes int64) {
	_ = filepath.WalkDir(f.Session(id), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // files go meanwhile
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
