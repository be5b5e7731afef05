package main

import (
	"context"
	"os"
	"path/filepath"

	"codex-proxy/notify"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/prepare"
	"codex-proxy/runner/sandbox"
)

// repositoryPrepare opens the files of the order to fetch a repository, passes them to repository-fetch through
// systemd, and lends it the credentials. It is ExecStartPre of codex-repository@KEY.service and runs as root: the files
// belong to codex-runner.service.
func repositoryPrepare(ctx context.Context, key string, notifier *notify.Notifier) error {
	return prepare.Installed().Fetch(ctx, key, notifier)
}

// repositoryFetched removes the files of repository-prepare. It is ExecStopPost of codex-repository@KEY.service and
// runs as root, after any end.
func repositoryFetched(_ context.Context, key string, _ *notify.Notifier) error {
	return prepare.Installed().Fetched(key)
}

// repositoryFetch makes the mirror of a repository, or brings it up to date, finds out which commit is meant, and
// fetches the submodules of that commit. It is the main process of codex-repository@KEY.service. There is no error if
// the result is written, even of a failed fetch.
func repositoryFetch(ctx context.Context, _ string, _ *notify.Notifier) error {
	files, err := notify.InheritedFiles()
	if err != nil {
		return err
	}
	return job.Fetch{}.Run(ctx, files, os.Getenv("STATE_DIRECTORY"), os.Getenv("CREDENTIALS_DIRECTORY")+"/")
}

// environmentPrepare opens the files of the order to build an environment, and passes them to environment-build through
// systemd. It is ExecStartPre of codex-environment@KEY.service and runs as root: the files belong to
// codex-runner.service.
func environmentPrepare(ctx context.Context, key string, notifier *notify.Notifier) error {
	return prepare.Installed().Build(ctx, key, notifier)
}

// environmentPublish has sessions see the environment that was built, if it has nothing but files, directories and
// links, and removes the remains of a build. It is ExecStopPost of codex-environment@KEY.service and runs as root,
// after any end: no process of the build is left then.
func environmentPublish(_ context.Context, key string, _ *notify.Notifier) error {
	return prepare.OnHost(func() error { return prepare.Installed().Publish(key, os.Getenv) })
}

// environmentBuild installs the packages of an environment, or runs the set-up of a commit, at the paths where sessions
// see the files later. It is the main process of codex-environment@KEY.service; KEY is the beginning of the key. There
// is no error if the result is written, even of a failed build.
func environmentBuild(ctx context.Context, key string, _ *notify.Notifier) error {
	score, err := exec.Hide() // a set-up, which has the same user, must not write the result
	if err != nil {
		return err
	}
	defer score.Close()
	files, err := notify.InheritedFiles()
	if err != nil {
		return err
	}
	toolchains, err := sandbox.ReadList(paths.Toolchains)
	if err != nil {
		return err
	}
	return job.Build{}.Run(ctx, files, key, job.Place{
		Environments: paths.Environments, Checkout: paths.Workspace, Home: paths.Home,
		State: filepath.Join(paths.Environments, paths.SnapshotPart), Repository: paths.Repository,
		Programs: sandbox.Programs{Usual: os.Getenv("PATH"), Toolchains: toolchains}, Environ: os.Environ(),
	})
}

// sweep removes the files of a user that systemd gave for a time: WHAT is session-ID for the home of a session,
// repository-KEY, environment-KEY, or slot-NUMBER for a workspace. It is the main process of codex-sweep@WHAT.service.
// The files of a running session stay.
func sweep(_ context.Context, what string, _ *notify.Notifier) error {
	return prepare.Installed().Sweep(what)
}
