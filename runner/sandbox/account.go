package sandbox

import (
	"bytes"
	"errors"
	"strconv"
)

// Account is a line of passwd(5).
type Account struct {
	Name, FullName string
	UID, GID       int
	Home           string
}

// errNoAccount is why the toolchains of a user are not shown.
var errNoAccount = errors.New("it has no line with a home for the user")

// FindAccount returns the first account of a user in the text of passwd(5).
func FindAccount(passwd []byte, uid int) (Account, error) {
	for line := range bytes.Lines(passwd) {
		fields := bytes.Split(bytes.TrimSpace(line), []byte(":"))
		if len(fields) < 6 || string(fields[2]) != strconv.Itoa(uid) {
			continue
		}
		gid, err := strconv.Atoi(string(fields[3]))
		a := Account{string(fields[0]), string(fields[4]), uid, gid, string(fields[5])}
		if err != nil || !clean(a.Home) {
			break
		}
		return a, nil
	}
	return Account{}, errNoAccount
}
