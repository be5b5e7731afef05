package runner

import (
	"errors"
	"fmt"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// refuse returns the error of a request.
func refuse(code wire.Code, remedy, format string, args ...any) error {
	return &wire.Error{Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// refuseAs is refuse for an error with the text "fault: remedy".
func refuseAs(code wire.Code, err error) error {
	message, remedy, _ := strings.Cut(err.Error(), ": ")
	return refuse(code, remedy, "%s", message)
}

// invalid is refuseAs for the ith command of a request, which is named if there are more.
func invalid(i, commands int, err error) error {
	if commands == 1 {
		return refuseAs(wire.InvalidRequest, err)
	}
	message, remedy, _ := strings.Cut(err.Error(), ": ")
	return refuse(wire.InvalidRequest, remedy, "commands[%d]: %s", i, message)
}

// about explains an error of the store about a session.
func about(id string, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse(wire.NotFound, "`codex-runner sessions` lists yours",
			"there is no such session of yours as %s, or no such command in it", id)
	case errors.Is(err, store.ErrState):
		return refuse(wire.Conflict, "`codex-runner show "+id+"` says what it does",
			"the session %s or its command is not in a state for that", id)
	}
	return err
}
