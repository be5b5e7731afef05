// Package packages tests the built packages as files: lintian and rpmlint find no
// fault, a second build gives the same bytes, and the other architecture builds, too.
// test/integration tests their installation.
package packages
