// Package wire is shared by the model adapters. It has a client that posts a JSON body to one
// endpoint and reads the server-sent events of the reply, a classification of failures, and JSON
// helpers that preserve values verbatim. It follows no redirects, sends no request twice, limits
// what it reads, and puts no keys into errors.
package wire
