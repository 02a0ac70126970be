// Package wire is what the model adapters share: a client of one endpoint that posts a JSON body and reads the server-sent events of
// the answer, the classes of its failures, and JSON that stays as it came. It follows no redirect, sends no request twice, bounds
// what it reads, and puts no key into an error.
package wire
