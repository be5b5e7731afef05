package api

import (
	"io"
	"net/http"
	"strconv"

	"codex-proxy/runner/api/wire"
)

func (s *session) listArtifacts(w http.ResponseWriter, r *http.Request) error {
	artifacts, err := s.Runner.ArtifactsOf(r.Context(), s.viewer(), s.id)
	if err == nil {
		answer(w, http.StatusOK, artifacts)
	}
	return err
}

func (s *session) getArtifact(w http.ResponseWriter, r *http.Request) error {
	number, err := strconv.ParseInt(r.PathValue("artifact"), 10, 64)
	if err != nil {
		return &wire.Error{Code: wire.NotFound, Message: "the session has no such artifact",
			Remedy: "use the id of an artifact: `codex-runner artifacts " + s.id + "` lists them"}
	}
	artifact, content, err := s.Runner.Artifact(r.Context(), s.viewer(), s.id, number)
	if err != nil {
		return err
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(artifact.Bytes, 10))
	if _, err := io.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler) // the client must not take this for the end
	}
	return nil
}
