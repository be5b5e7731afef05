package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// File is a file in an archive.
type File struct {
	Path   string
	Kind   Kind
	Offset int64 // of its content
	Bytes  int64
	SHA256 string // in hexadecimal
}

// maxHeader bounds a header, in bytes: a path of PATH_MAX, each byte of it escaped.
const maxHeader = 32 << 10

// Read returns the files in an archive of that size, within limits. A part at the end is left out: its writer was
// killed. The error is about an archive that Collect has not written; the files before the fault are returned with it.
func Read(archive io.ReaderAt, size int64, limits Limits) ([]File, error) {
	var files []File
	head := make([]byte, maxHeader)
	for offset := int64(0); offset < size; {
		n, err := archive.ReadAt(head[:min(maxHeader, size-offset)], offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return files, fmt.Errorf("cannot read the artifacts: %w", err)
		}
		line, _, whole := bytes.Cut(head[:n], []byte{'\n'})
		if !whole && n < maxHeader {
			return files, nil
		}
		var h header
		if err := json.Unmarshal(line, &h); !whole || err != nil || h.Bytes < 0 || !fs.ValidPath(h.Path) ||
			h.Path == "." {
			return files, fmt.Errorf("the artifacts are damaged at byte %d", offset)
		}
		offset += int64(len(line)) + 1
		if h.Bytes > size-offset {
			return files, nil
		}
		limits.Count--
		limits.Bytes -= h.Bytes
		if limits.Count < 0 || limits.Bytes < 0 {
			return files, fmt.Errorf("there are more artifacts than a command may keep, from byte %d on", offset)
		}
		file, err := read(io.NewSectionReader(archive, offset, h.Bytes), h.Path)
		if err != nil {
			return files, fmt.Errorf("cannot read an artifact: %w", err)
		}
		file.Offset, file.Bytes = offset, h.Bytes
		files = append(files, file)
		offset += h.Bytes
	}
	return files, nil
}

func read(content *io.SectionReader, path string) (File, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil {
		return File{}, err
	}
	head := make([]byte, min(kindHead, content.Size()))
	if _, err := content.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return File{}, err
	}
	return File{Path: path, Kind: kindOf(path, head), SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}
