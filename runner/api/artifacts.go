package api

import (
	"io"
	"net/http"
	"strconv"

	"codex-proxy/runner/api/wire"
)

func (s *Server) listArtifacts(w http.ResponseWriter, r *http.Request, c caller) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	artifacts, err := s.Runner.ArtifactsOf(r.Context(), c.viewer(), id)
	if err == nil {
		answer(w, http.StatusOK, artifacts)
	}
	return err
}

func (s *Server) getArtifact(w http.ResponseWriter, r *http.Request, c caller) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(r.PathValue("artifact"), 10, 64)
	if err != nil {
		return &wire.Error{Code: wire.NotFound, Message: "the session has no such artifact",
			Remedy: "use the id of an artifact: `codex-runner artifacts " + id + "` lists them"}
	}
	artifact, content, err := s.Runner.Artifact(r.Context(), c.viewer(), id, number)
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
