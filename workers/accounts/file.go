package accounts

import "codex-proxy/internal/statefile"

// FileName is the name of the file in the state directory of the service.
const FileName = "accounts.json"

// maxFile bounds the file, in bytes: far more than the accounts of any service take.
const maxFile = 8 << 20

// ReadFile reads a file that WriteFile has written. The error is fs.ErrNotExist if there is no file.
func ReadFile(path string) (saved Saved, err error) {
	err = statefile.Read(path, "accounts", maxFile, &saved)
	return saved, err
}

// WriteFile replaces the file at once. It has the addresses of the accounts' owners, so its user alone may read it.
func WriteFile(path string, saved Saved) error { return statefile.Write(path, saved) }
