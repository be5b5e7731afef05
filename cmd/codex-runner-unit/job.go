package main

import (
	"context"
	"os"
	"path/filepath"

	"codex-proxy/notify"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/prepare"
)

// repositoryPrepare opens the files of the order to fetch a repository, and passes them to repository-fetch through
// systemd. It is ExecStartPre of codex-repository@KEY.service and runs as root: the files belong to codex-runner.service.
func repositoryPrepare(ctx context.Context, key string, notifier *notify.Notifier) error {
	return prepareJob(ctx, key, paths.RepositoryDir, notifier)
}

// repositoryFetch makes the mirror of a repository, or brings it up to date, finds out which commit is meant, and fetches
// the submodules of that commit. It is the main process of codex-repository@KEY.service. There is no error if the result
// is written, also that of a fetch that failed.
func repositoryFetch(ctx context.Context, _ string, _ *notify.Notifier) error {
	files, err := notify.InheritedFiles()
	if err != nil {
		return err
	}
	credentials := filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), paths.RepositoryCredentialPrefix)
	return job.Fetch{}.Run(ctx, files, os.Getenv("STATE_DIRECTORY"), credentials)
}

// environmentPrepare opens the files of the order to build an environment, and passes them to environment-build through
// systemd. It is ExecStartPre of codex-environment@KEY.service and runs as root: the files belong to
// codex-runner.service.
func environmentPrepare(ctx context.Context, key string, notifier *notify.Notifier) error {
	return prepareJob(ctx, key, paths.EnvironmentDir, notifier)
}

// environmentBuild installs the packages of an environment where sessions see them. It is the main process of
// codex-environment@KEY.service. There is no error if the result is written, also that of a build that failed.
func environmentBuild(ctx context.Context, key string, _ *notify.Notifier) error {
	files, err := notify.InheritedFiles()
	if err != nil {
		return err
	}
	return job.Build{}.Run(ctx, files, key, filepath.Join(paths.Environments, key), os.Getenv("PATH"))
}

func prepareJob(ctx context.Context, key string, dir func(key string) string, notifier *notify.Notifier) error {
	if err := paths.CheckKey(key); err != nil {
		return err
	}
	return prepare.Installed().Job(ctx, dir(key), notifier)
}

// sweep removes what belongs to a user that systemd gave for a time: what is session-ID for the home of a session,
// repository-KEY, environment-KEY, or slot-NUMBER for a workspace. It is the main process of codex-sweep@WHAT.service.
// What a running session has is not removed.
func sweep(_ context.Context, what string, _ *notify.Notifier) error {
	return prepare.Installed().Sweep(what)
}
