package disk

import "golang.org/x/sys/unix"

// Space is the size of a file system, and its free space for a user that is not root, in bytes.
type Space struct{ Size, Free uint64 }

// SpaceOf returns the space of the file system of a directory (statfs(2)).
func SpaceOf(dir string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Space{}, err
	}
	block := uint64(s.Bsize)
	return Space{Size: s.Blocks * block, Free: s.Bavail * block}, nil
}
