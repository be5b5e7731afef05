// Package daemon tests what an operator does with the packages: installs, upgrades, looks, measures and mends.
package daemon
