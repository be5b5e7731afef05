package keyed

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"codex-proxy/workers/control"
)

// sessionLife is how long a session is valid, if its key stays.
const sessionLife = 7 * 24 * time.Hour

// secretSize is the size of the secret that signs sessions, in bytes.
const secretSize = 32

// Secret reads the secret that signs sessions from a file, and makes it first if there is none.
func Secret(file string) ([]byte, error) {
	secret, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(secret) == 0 { // as after a loss of power
		secret = make([]byte, secretSize)
		rand.Read(secret) // never fails: crypto/rand aborts the program instead
		fresh := file + ".new"
		if err = os.WriteFile(fresh, secret, 0o600); err == nil {
			err = os.Rename(fresh, file)
		}
	}
	if err == nil && len(secret) != secretSize {
		err = fmt.Errorf("%s is damaged: remove it; each person enters the key again then", file)
	}
	return secret, err
}

// signed is a session: the name of the key, the end, and a signature over both, and the key's ID and right. A session
// ends with its key or when the right changes, and outlives this process.
func signed(secret []byte, key control.ConsoleKey, end time.Time) string {
	until := strconv.FormatInt(end.Unix(), 10)
	return key.Name + "~" + until + "~" + signature(secret, key, until)
}

func signature(secret []byte, key control.ConsoleKey, until string) string {
	sum := hmac.New(sha256.New, secret)
	fmt.Fprintf(sum, "%s\n%s\n%s\n%s", key.Name, key.ID, key.Right, until)
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// named is the name of the key of a session that is not over; empty for another text.
func named(session string, now time.Time) string {
	parts := strings.Split(session, "~")
	if len(parts) != 3 {
		return ""
	}
	end, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || !now.Before(time.Unix(end, 0)) {
		return ""
	}
	return parts[0]
}

// genuine reports whether the session is one of the key.
func genuine(secret []byte, key control.ConsoleKey, session string) bool {
	parts := strings.Split(session, "~")
	return len(parts) == 3 && key.Name != "" && key.Name == parts[0] &&
		hmac.Equal([]byte(signature(secret, key, parts[1])), []byte(parts[2]))
}
