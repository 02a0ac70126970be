// Package registry tests that metier installs from, and publishes in, registries that other projects
// implement, and that it exchanges artifacts with their clients. It is a module of its own, because
// those registries have many dependencies that metier does not need.
package registry
