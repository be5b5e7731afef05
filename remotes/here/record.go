package here

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/units"
)

// mostUsers bounds the users of a machine.
const mostUsers = 1024

// Record has the changes of enable for one user, so that disable undoes these and no more.
type Record struct {
	User string   `json:"user"`
	Home string   `json:"home"`
	UID  int      `json:"uid"`
	GID  int      `json:"gid"`
	Made []string `json:"made,omitempty"` // directories in the home
	Loan *Loan    `json:"loan,omitempty"` // nil: no account was ever lent
}

// Loan has the accounts of codex-proxy that serve a user's own codex in place of the user's login.
type Loan struct {
	On       bool     `json:"on"`                 // false: the login of the user serves again
	Accounts []string `json:"accounts,omitempty"` // empty: all
}

// Lends reports whether accounts serve the user's codex.
func (r Record) Lends() bool { return r.Loan != nil && r.Loan.On }

// In is the user's home.
func (r Record) In() Home { return Home{Dir: r.Home, UID: r.UID, GID: r.GID} }

// Records is the directory of the records, a file NAME.json for each user.
type Records string

func (d Records) file(name string) string { return filepath.Join(string(d), name+".json") }

// Get returns the record of a user, or fs.ErrNotExist.
func (d Records) Get(name string) (r Record, err error) {
	text, err := os.ReadFile(d.file(name))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s does not parse: %w; remove it, then codex-proxy here enable %s",
			d.file(name), err, name)
	}
	return r, nil
}

// All returns the records of all users. The error joins one error for each file that it cannot read.
func (d Records) All() (list []Record, err error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".json")
		if !is || units.ValidUserName(name) != nil || len(list) == mostUsers {
			continue
		}
		r, fault := d.Get(name)
		if fault != nil {
			err = errors.Join(err, fault)
			continue
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Record) int { return strings.Compare(a.User, b.User) })
	return list, err
}

// Put writes a record.
func (d Records) Put(r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o755); err != nil { //nolint:gosec // all users read it
		return fmt.Errorf("cannot make the directory of the records: %w", err)
	}
	temp := d.file(r.User) + ".new"
	err = onDisk(temp, append(text, '\n'))
	if err == nil {
		err = os.Rename(temp, d.file(r.User))
	}
	if err != nil {
		return fmt.Errorf("cannot write the record: %w", err)
	}
	return nil
}

// onDisk writes a file to the disk: after a loss of power a rename may be there without it.
func onDisk(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644) //nolint:gosec // all users read it
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// Remove removes a record, if there is one, and the directory with the last one.
func (d Records) Remove(name string) error {
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the record: %w", err)
	}
	_ = os.Remove(string(d)) // if it is empty
	return nil
}
