// Package jsonscan reads JSON objects member by member, in one pass and without copying. Most messages of codex
// app-server carry two or three members of interest, and some carry a whole history that is not needed.
package jsonscan
