package copies

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"codex-proxy/codex/versions"
)

// Report joins the facts of the store, the settings and the disk.
type Report struct {
	Policy    Policy              `json:"policy"`
	Tested    string              `json:"tested"` // the range of versions
	State     State               `json:"state"`
	Copies    []Copy              `json:"-"`
	Units     map[string][]string `json:"units"`               // those that have chosen a copy, by its name
	Installed *Installed          `json:"installed,omitempty"` // nil: no program is installed for all units
	InPlace   error               `json:"-"`                   // why that has no copy
	Fault     error               `json:"-"`                   // of the store, or of the copy in use
	AtOnce    bool                `json:"-"`                   // nothing tries a new codex
}

// Report looks at the store and at the installed program, empty if there is none. It reads and runs no program.
func (s *Store) Report(policy Policy, program string, atOnce bool) Report {
	r := Report{Policy: policy, Tested: versions.Range(), AtOnce: atOnce, Units: map[string][]string{}}
	r.State, r.Fault = s.State()
	var err error
	r.Copies, err = s.List()
	r.Fault = cmp.Or(r.Fault, err)
	if r.State.InUse != "" {
		_, err = s.Get(r.State.InUse)
		r.Fault = cmp.Or(r.Fault, err)
	}
	units, _ := os.ReadDir(s.Runs) // without a directory no unit has chosen
	for _, unit := range units {
		if name, ok := s.Of(unit.Name()); ok {
			r.Units[name] = append(r.Units[name], unit.Name())
		}
	}
	if program != "" {
		installed := s.Installed(program)
		r.Installed = &installed
		r.InPlace = errors.Join(mounted(installed.Program, s.Dir), trusted(installed.Program, s.owner))
	}
	return r
}

// Current is the copy that starts take.
func (r Report) Current() (Copy, bool) {
	i := slices.IndexFunc(r.Copies, func(c Copy) bool { return c.Name == r.State.InUse })
	if i < 0 {
		return Copy{}, false
	}
	return r.Copies[i], true
}

// Standing is a sentence on the codex in use; empty if none is.
func (r Report) Standing() string {
	c, ok := r.Current()
	version, verb := c.Version, "is in use"
	if !ok && r.Installed != nil {
		version, verb = r.Installed.Version, "is installed"
	}
	if version == "" || version == unknown {
		return ""
	}
	return fmt.Sprintf("codex %s %s, %s", version, verb, versions.Place(version))
}

// Waiting is a sentence on a codex that is installed and not in use, with the remedy; empty if there is none.
func (r Report) Waiting() (sentence, remedy string) {
	i := r.Installed
	current, _ := r.Current()
	if i == nil || r.State.InUse == "" || i.Copy == r.State.InUse {
		return "", ""
	}
	use := "to use it: codex-proxy codex use " + i.Version
	switch only := r.Policy.Version(); {
	case i.Held != nil:
		return fmt.Sprintf("%s is installed and held back: %s", i.Version, i.Held.Reason), use
	case only != "":
		return fmt.Sprintf("%s is installed, and config.toml has codex = %q", i.Version, only), "to use it, change that"
	case r.State.Pinned != "" || r.Policy == Pinned:
		return fmt.Sprintf("%s is installed, and %s stays in use", i.Version, current.Version), use
	case r.AtOnce:
		return i.Version + " is installed", "the next start of a unit uses it"
	}
	return i.Version + " is installed and not tried yet", "to try it now: codex-proxy codex try " + i.Version
}
