package wire

import (
	"strings"
	"time"
)

// NewRepository is the body of POST /v1/repositories.
type NewRepository struct {
	// URL names a repository that the daemon fetches. With a Path, relative URLs of submodules begin there.
	URL string `json:"url,omitempty"`
	// Path is the path of a local repository on the caller's side. It only names the repository: the caller sends the
	// commits in bundles, as the daemon may not read the files.
	Path string `json:"path,omitempty"`
}

// Repository is a mirror of the daemon. Each user has mirrors of their own.
type Repository struct {
	Key  string `json:"key"`
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
	// Has are commits at the ends of its refs, the newest first: a bundle may leave out their histories. The entry that
	// begins with TagsMark names the tags and submodules of a local one.
	Has     []string  `json:"has"`
	Fetched time.Time `json:"fetched,omitzero"`
	Bytes   int64     `json:"bytes"`
}

// TagsMark begins the entries of Repository.Has that name tags, as workspace.Tags does.
const TagsMark = "tags:"

// Tags names the tags and submodules that the last bundle brought.
func (r Repository) Tags() string {
	for _, entry := range r.Has {
		if tags, ok := strings.CutPrefix(entry, TagsMark); ok {
			return tags
		}
	}
	return ""
}

// Repositories are the repositories of the caller.
type Repositories struct {
	Repositories []Repository `json:"repositories"`
}

// Prune is the body of POST /v1/prune, which removes sessions of the caller; an administrator may select all users.
type Prune struct {
	// closed sessions that ended before; 0 is the retention of runner.toml
	OlderThan Duration `json:"older_than,omitempty"`
	All       bool     `json:"all,omitempty"` // of all users
	DryRun    bool     `json:"dry_run,omitempty"`
}

// Pruned lists the removed sessions; in a dry run, the sessions to remove.
type Pruned struct {
	Sessions []string `json:"sessions"` // IDs
	Bytes    int64    `json:"bytes"`
}

// Status is the state of the daemon.
type Status struct {
	Version     string    `json:"version"`
	Since       time.Time `json:"since"`
	Ready       bool      `json:"ready"`
	Reason      string    `json:"reason,omitempty"` // why it is not ready
	Running     int       `json:"running"`          // commands, of all users
	MaxSessions int       `json:"max_sessions"`     // that run at the same time
	Queued      int       `json:"queued"`
	MaxQueued   int       `json:"max_queued"`
	Sessions    int       `json:"sessions"` // in the store
	Workspaces  int       `json:"workspaces"`
	Leased      int       `json:"leased"` // workspaces

	Environments     int   `json:"environments"`
	EnvironmentBytes int64 `json:"environment_bytes"`
	Snapshots        int   `json:"snapshots"` // of set-ups
	SnapshotBytes    int64 `json:"snapshot_bytes"`
	// SnapshotHits, SnapshotMisses and SnapshotsRemoved count since the start: sessions whose snapshot was there,
	// sessions for which a set-up ran, and snapshots that were removed to make room.
	SnapshotHits     int64 `json:"snapshot_hits"`
	SnapshotMisses   int64 `json:"snapshot_misses"`
	SnapshotsRemoved int64 `json:"snapshots_removed"`
	Repositories     int   `json:"repositories"` // with a mirror
	RepositoryBytes  int64 `json:"repository_bytes"`
	// DiskSize and DiskFree are bytes of the file system that has the logs of sessions.
	DiskSize int64 `json:"disk_size"`
	DiskFree int64 `json:"disk_free"`
}

// Watched is one line of GET /v1/watch: the changes since the line before.
type Watched struct {
	// Whole means that the line has everything; lines before it are of no use then.
	Whole    bool      `json:"whole,omitempty"`
	Status   *Status   `json:"status,omitempty"`
	Sessions []Session `json:"sessions,omitempty"` // new or changed, the newest first
	Removed  []string  `json:"removed,omitempty"`  // IDs
}
