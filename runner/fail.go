package runner

import (
	"errors"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// invalid is wire.RefuseAs for the ith command of a request, which is named if there are more.
func invalid(i, commands int, err error) error {
	if commands == 1 {
		return wire.RefuseAs(wire.InvalidRequest, err)
	}
	message, remedy, _ := strings.Cut(err.Error(), ": ")
	return wire.Refuse(wire.InvalidRequest, remedy, "commands[%d]: %s", i, message)
}

// about explains an error of the store about a session.
func about(id string, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return wire.Refuse(wire.NotFound, "`codex-runner sessions` lists yours",
			"there is no such session of yours as %s, or no such command in it", id)
	case errors.Is(err, store.ErrState):
		return wire.Refuse(wire.Conflict, "`codex-runner show "+id+"` says what it does",
			"the session %s or its command is not in a state for that", id)
	}
	return err
}
