package reach

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The modes of the whole path count, for the owner, the group and all others.
func TestReaches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	top := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(top), 0o755))
	dir, program := filepath.Join(top, "d"), filepath.Join(top, "d", "p")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	require.NoError(t, os.Chown(program, 7, 8))
	require.NoError(t, os.Chown(dir, 7, 8))
	owner, group, other := account(7, 1), account(1, 1, 8), account(1, 1)
	for _, tc := range []struct {
		dir, program os.FileMode
		may          [3]bool
	}{
		{0o755, 0o755, [3]bool{true, true, true}},
		{0o755, 0o750, [3]bool{true, true, false}},
		{0o750, 0o755, [3]bool{true, true, false}},
		{0o700, 0o755, [3]bool{true, false, false}},
		{0o755, 0o645, [3]bool{false, false, true}},
	} {
		require.NoError(t, os.Chmod(dir, tc.dir))
		require.NoError(t, os.Chmod(program, tc.program))
		assert.Equal(t, tc.may, [3]bool{Check(owner, program, 1) == nil, Check(group, program, 1) == nil,
			Check(other, program, 1) == nil}, "%v %v", tc.dir, tc.program)
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	assert.NoError(t, Check(owner, dir, 2))
	assert.EqualError(t, Check(other, dir, 2), "the user has no permission for "+dir)
	assert.True(t, errors.Is(Check(other, dir+"/x", 2), os.ErrNotExist))
}

// account is a user with these ids.
func account(uid, gid uint32, groups ...uint32) Account {
	return Account{UID: uid, GID: gid, Groups: groups}
}
