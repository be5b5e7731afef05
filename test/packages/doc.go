// Package packages tests the packages that make builds, as files: what lintian
// and rpmlint say, that a second build gives the same bytes, and that the other
// architecture is built, too. What installing them does is tested in
// test/integration.
package packages
