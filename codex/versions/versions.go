// Package versions is the range of codex's versions that this project takes and that its tests run.
package versions

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

const (
	// Oldest is the first minor version of codex 0.x with an app-server that this project supports.
	Oldest = 140
	// OldestForRemotes is the oldest for remotes, and for their clients. A client before 0.153 ends when it is cut. One
	// of 0.153 asks its user for a login that a remote does not need, and the app-server of 0.153 lists no message
	// after the end of a cut turn, before which package rollout leaves ordinals out. 0.154 does not list each message
	// that came just before it was killed. The booted tests have run none of those from 0.155 to 0.168.
	OldestForRemotes = 169
	// OldestForHere is the oldest for a user's own codex in a unit: the first one of those that the tests run that
	// attaches by itself to a server, and knows the setting by which it starts none.
	OldestForHere = 169
	// MarksResponses is the first one of those that the tests run that reports the end of a response of the model. An
	// older one has a turn go on until the calls in it are answered.
	MarksResponses = 153
	// RefusesLinkedDocuments is the first one of those that the tests run that reads no AGENTS.md which is a link to a
	// file outside the workspace. An older one gives the model whatever file the link names.
	RefusesLinkedDocuments = 153
	// Tested is the newest minor version that the tests have run.
	Tested = 171
)

// OfAgent is the version in the user agent by which codex answers a client: NAME/VERSION and more.
func OfAgent(agent string) string {
	_, rest, _ := strings.Cut(agent, "/")
	version, _, _ := strings.Cut(rest, " ")
	return version
}

// Range is the tested range: of the versions in it, the tests have run the ends and some between.
func Range() string { return fmt.Sprintf("0.%d to 0.%d", Oldest, Tested) }

// Place says where a version stands to the tested range.
func Place(version string) string {
	return cmp.Or(Standing(version), "within the tested range, "+Range())
}

// Standing says of a version such as 0.172.0 that it is newer than the tested ones; it is empty of those and of a text
// that is no version.
func Standing(version string) string {
	major, minor, ok := parse(version)
	if !ok || major == 0 && minor <= Tested {
		return ""
	}
	return fmt.Sprintf("newer than 0.%d, the newest that this release was tested with", Tested)
}

// Older reports whether a version is older than that minor one.
func Older(version string, than int) bool {
	major, minor, ok := parse(version)
	return ok && major == 0 && minor < than
}

func parse(version string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(second)
	return major, minor, err == nil && err2 == nil
}
